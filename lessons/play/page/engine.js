// The engine in a worker of its own, so that the page never waits for it. Both come out of this
// very file: a page that is opened from a file may not fetch others. An engine has one training at a
// time, so the training, a comparison and the broken runs each have an engine of their own. An engine
// starts when it is first asked.

const bytesOf = async (id) => {
  const text = document.getElementById(id).textContent.trim();
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};

const WORKER = `
let engine;
onmessage = async ({ data }) => {
  if (data.wasm) {
    engine = await playEngine({ wasmBinary: data.wasm });
    return;
  }
  while (!engine) await new Promise((resolve) => setTimeout(resolve, 5));
  engine.ccall('play_ask', null, ['string', 'string'], [data.request, data.broken]);
  postMessage({ id: data.id, answer: engine.UTF8ToString(engine._play_answer()),
                memory: engine.HEAP8.length });
};`;

export class Engine {
  constructor() {
    this.waiting = new Map();
    this.next = 1;
    this.memory = 0;
  }

  async start() {
    const [glue, wasm] = await Promise.all([bytesOf('engine-js'), bytesOf('engine-wasm')]);
    const source = new Blob([glue, WORKER], { type: 'text/javascript' });
    const worker = new Worker(URL.createObjectURL(source));
    worker.onmessage = ({ data }) => {
      this.memory = data.memory;
      this.waiting.get(data.id)(JSON.parse(data.answer));
      this.waiting.delete(data.id);
    };
    worker.postMessage({ wasm });
    return worker;
  }

  async end() { (await this.worker).terminate(); }

  // The answer to a request of engine/binding.h, by an engine with this bug, if there is a name;
  // throws what the engine answers as an error.
  async ask(request, broken = '') {
    const worker = await (this.worker ??= this.start());
    const id = this.next++;
    const answer = await new Promise((resolve) => {
      this.waiting.set(id, resolve);
      worker.postMessage({ id, request: JSON.stringify(request), broken });
    });
    if (answer.error) throw new Error(answer.error);
    return answer;
  }
}
