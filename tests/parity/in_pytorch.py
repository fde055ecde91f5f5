"""`make exchange`, the last part: the lines under "## In PyTorch" of every lesson run in PyTorch.

    python3 in_pytorch.py                          the pages of lessons/
    python3 in_pytorch.py --only=11 --show         one page; shows what its lines print on rank 0
    python3 in_pytorch.py --lessons=DIR            the pages of another folder

All ```python blocks of a page run in order in one namespace, on 2 new processes: CPU, Gloo. The namespace
has what namespace() below puts in. A block whose first line is `# needs a GPU` does not run: it must parse,
and every name and keyword of PyTorch in it must exist.
"""

import argparse
import ast
import builtins
import contextlib
import datetime
import inspect
import io
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

LESSONS = pathlib.Path(__file__).parents[2] / "lessons"
RANKS, ROWS, CONTEXT, VOCABULARY, WIDTH, HEADS, LAYERS = 2, 4, 16, 65, 32, 4, 4
NEEDS_GPU = "# needs a GPU"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = self.c_attn(self.ln_1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Small; the head is not tied."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.init_weights()

    def init_weights(self):
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


def loss_of(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def namespace(rank, folder):
    """What the lines of a page may use without another word."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    text = torch.randint(VOCABULARY, (ROWS, CONTEXT + 1), generator=torch.Generator().manual_seed(rank))
    torch.manual_seed(1337)  # every rank makes the same model
    return dict(torch=torch, nn=nn, F=F, dist=dist, rank=rank, world_size=RANKS, init_device_mesh=init_device_mesh,
                fully_shard=fully_shard, FSDPModule=FSDPModule, MixedPrecisionPolicy=MixedPrecisionPolicy,
                mesh=init_device_mesh("cpu", (RANKS,)), GPT=GPT, model=GPT(), x=text[:, :-1], y=text[:, 1:],
                loss_of=loss_of, folder=folder)


def blocks_of(page):
    """(line of the page, text) of each block; None without the section."""
    page = page.read_text()
    section = re.search(r"^## In PyTorch\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    if section is None:
        return None
    blocks = re.finditer(r"^```python\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)
    return [(page.count("\n", 0, section.start(1) + block.start(1)), block[1]) for block in blocks]


def resolve(node, names):
    """What a name or a.b.c of modules and classes is; None if only a run could tell."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if inspect.ismodule(owner) or inspect.isclass(owner):
            return getattr(owner, node.attr)
    return None


def look_up(tree, names):
    """The block does not run, but its imports do. An unknown name or keyword is an error."""
    nodes = list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            exec(compile(ast.Module([node], []), "an import", "exec"), names)
    known = names.keys() | vars(builtins).keys() | {n.arg for n in nodes if isinstance(n, ast.arg)}
    known |= {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    known |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in known:
            raise NameError(f"line {node.lineno}: name '{node.id}' is not defined")
        try:
            called = resolve(node.func if isinstance(node, ast.Call) else node, names)
        except AttributeError as error:
            raise AttributeError(f"line {node.lineno}: {error}") from None
        if not isinstance(node, ast.Call):
            continue
        with contextlib.suppress(TypeError, ValueError):  # no signature: nothing to compare
            parameters = inspect.signature(called).parameters if called else {}
            if parameters and not any(p.kind == p.VAR_KEYWORD for p in parameters.values()):
                for word in node.keywords:
                    if word.arg and word.arg not in parameters:
                        raise NameError(f"line {node.lineno}: {ast.unparse(node.func)} takes no '{word.arg}'")


def run_rank(rank, name, blocks, folder, show):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=60))
    common = pathlib.Path(folder) / "common"
    common.mkdir(exist_ok=True)
    names = namespace(rank, str(common))
    with contextlib.nullcontext() if show and rank == 0 else contextlib.redirect_stdout(io.StringIO()):
        for line, text in blocks:
            tree = ast.parse("\n" * line + text, name)  # so that an error names the line of the page
            if text.startswith(NEEDS_GPU):
                look_up(tree, names)
            else:
                exec(compile(tree, name, "exec"), names)
    dist.barrier()  # a rank that leaves early may take others with it
    dist.destroy_process_group()


def check(page, show):
    """One line about a page, and whether all is well."""
    name = page.parent.name
    blocks = blocks_of(page)
    if not blocks:
        return f"{name}: " + ("missing section" if blocks is None else "no ```python block"), False
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.start_processes(run_rank, (name, blocks, folder, show), RANKS, start_method="fork")
        except torch.multiprocessing.ProcessRaisedException as error:
            where = re.findall(rf'File "{name}", line (\d+)', str(error)) + [None]
            at = f" (README.md, line {where[0]})" if where[0] else ""
            return f"{name}: failed: {str(error).strip().splitlines()[-1]}{at}", False
        except torch.multiprocessing.ProcessExitedException as error:
            return f"{name}: failed: {error}", False
    lines = sum(text.count("\n") for _, text in blocks)
    looked_up = sum(text.startswith(NEEDS_GPU) for _, text in blocks)
    return (f"{name}: ok, {lines} lines" +
            (f"; {looked_up} of {len(blocks)} blocks need a GPU: names looked up, not run" if looked_up else "")), True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lessons", type=pathlib.Path, default=LESSONS, help="folder with the pages")
    parser.add_argument("--only", default="", help="the lesson of this number")
    parser.add_argument("--show", action="store_true", help="what the lines print on rank 0")
    args = parser.parse_args()
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        print(f"in_pytorch: not tried: PyTorch {torch.__version__} has no fully_shard")
        return
    warnings.simplefilter("ignore")  # of a lesson's lines only errors count
    logging.disable(logging.WARNING)
    pages = sorted(args.lessons.glob("[0-9][0-9]_*/README.md"))
    pages = [page for page in pages if page.parent.name.startswith(args.only)]
    if not pages:
        sys.exit(f"in_pytorch: no lesson '{args.only}' in {args.lessons}")
    failed = 0
    print(f"in_pytorch: PyTorch {torch.__version__}, {RANKS} ranks, CPU, Gloo")
    for page in pages:
        line, well = check(page, args.show)
        failed += not well
        print("  " + line, flush=True)
    sys.exit(f"in_pytorch: {failed} of {len(pages)} pages failed" if failed else 0)


if __name__ == "__main__":
    main()
