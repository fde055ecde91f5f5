"""`make exchange`, the second part: weights in one file a rank, from here to PyTorch and back.

nanofsdp trains on 4 ranks, in each layout, and exports on 4; 3 ranks of PyTorch load the files into a model
under fully_shard, by torch.distributed.checkpoint. Then the other way: PyTorch saves a random model on 4
ranks, 3 ranks of nanofsdp load it in each layout, and PyTorch loads what they save. Every parameter must come out
to the bit. Real processes, over Gloo.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist

import gpt2
from exchange import run

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 2, 2, 20, 11, 52  # 52: that of the tales
LAYOUTS = "flat", "per_parameter", "row_aligned"
HEAD = "lm_head.weight"  # tied to wte: safetensors refuses to write it twice, and nanofsdp does not


def make_model(vocabulary, whole):
    """With the weights of a file."""
    gpt2.resize(layers=LAYERS, heads=HEADS, width=WIDTH, context=CONTEXT, bias=True)
    model = gpt2.NanoGPT(vocabulary)
    if whole:
        state, _ = gpt2.load(whole)
        model.load_state_dict(state, strict=False)
    return model


def shard(model, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (ranks,))
    for module in (*model.transformer.h, model):
        fully_shard(module, mesh=mesh)
    return model


def state_of(model):
    return {name: value for name, value in model.state_dict().items() if name != HEAD}


def save(ranks, vocabulary, shards, whole):
    """PyTorch writes the weights of the file `whole` into the directory `shards`."""
    from torch.distributed.checkpoint import HuggingFaceStorageWriter, save

    model = shard(make_model(vocabulary, whole), ranks)
    save(state_of(model), storage_writer=HuggingFaceStorageWriter(str(shards), save_distributed=True))


def load(ranks, vocabulary, shards, whole):
    """PyTorch reads the directory, and finds what the file has."""
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load

    model = shard(make_model(vocabulary, None), ranks)
    load(state_of(model), storage_reader=HuggingFaceStorageReader(str(shards)))
    expected, _ = gpt2.load(whole)
    for name, parameter in model.named_parameters():
        name = "transformer.wte.weight" if name == HEAD else name
        got, want = parameter.full_tensor().detach(), expected[name]
        assert torch.equal(got.view(torch.int32), want.view(torch.int32)), f"{name} differs from {whole}'s"


def run_rank(rank, ranks, meeting, action, *arguments):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{meeting}/{ranks}", rank=rank, world_size=ranks)
    action(ranks, *arguments)
    dist.barrier()  # a rank that leaves early may take others with it
    dist.destroy_process_group()


def on_ranks(ranks, action, *arguments):
    with tempfile.TemporaryDirectory() as meeting:
        torch.multiprocessing.spawn(run_rank, (ranks, meeting, action, *arguments), nprocs=ranks)


def ours_to_pytorch(args, saves, loads, layout):
    folder = args.out / layout
    run(args.binary, "train", f"--ranks={saves}", "--max_iters=20", "--eval_interval=20", "--eval_iters=1",
        f"--n_layer={LAYERS}", f"--n_head={HEADS}", f"--n_embd={WIDTH}", f"--block_size={CONTEXT}", "--bias=True",
        "--sample=0", f"--layout={layout}", f"--out_dir={folder}")
    run(args.binary, "export", f"--ranks={saves}", f"--out_dir={folder}", f"--to={folder}/shards")
    _, metadata = gpt2.load(folder / "model.safetensors")
    vocabulary = len(json.loads(metadata["nanofsdp"])["chars"])
    on_ranks(loads, load, vocabulary, folder / "shards", folder / "model.safetensors")


def pytorch_to_ours(args, saves, loads, layout):
    """nanofsdp takes the files into a run of this layout, whose one step is too small to change a weight."""
    folder = args.out / f"pytorch_{saves}_{layout}"
    whole = folder / "whole" / "model.safetensors"
    model = make_model(VOCABULARY, None)
    gpt2.randomise(model, saves)
    whole.parent.mkdir(parents=True)
    gpt2.save(whole, state_of(model))
    on_ranks(saves, save, VOCABULARY, folder / "shards", whole)
    (folder / "shards" / "config.json").write_text(json.dumps({"n_head": HEADS}))
    run(args.binary, "train", f"--ranks={loads}", "--init_from=gpt2", f"--pretrained={folder}/shards",
        f"--layout={layout}", f"--block_size={CONTEXT}", "--max_iters=1", "--learning_rate=1e-30", "--decay_lr=False",
        "--eval_interval=1", "--eval_iters=1", "--sample=0", f"--out_dir={folder}")
    run(args.binary, "export", f"--ranks={loads}", f"--out_dir={folder}", f"--to={folder}/back")
    on_ranks(loads, load, VOCABULARY, folder / "back", whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    try:
        import safetensors  # noqa: F401  which those of PyTorch need
        from torch.distributed.checkpoint import HuggingFaceStorageReader  # noqa: F401
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError as error:
        print(f"exchange of shards: not tried: {error}")
        return
    shutil.rmtree(args.out, ignore_errors=True)
    ways = [(ours_to_pytorch, 4, 3, "nanofsdp", "PyTorch", layout) for layout in LAYOUTS]
    ways += [(pytorch_to_ours, 4, 3, "PyTorch", "nanofsdp", layout) for layout in LAYOUTS]
    for way, saves, loads, there, here, layout in ways:
        try:
            way(args, saves, loads, layout)
        except torch.multiprocessing.ProcessRaisedException as error:
            sys.exit(f"exchange of shards: {error}")
        print(f"  {layout}: saved by {saves} ranks of {there}, loaded by {loads} of {here}: equal to the bit",
              flush=True)


if __name__ == "__main__":
    main()
