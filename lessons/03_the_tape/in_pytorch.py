"""The lines of lesson 03 in PyTorch, on 1 rank."""

from prelude import *

model = GPT()
x, y = next_batch()

#! [lines]
order = []
for i, layer in enumerate(model.layers):
    layer.register_forward_hook(lambda *_, i=i: order.append(f"forward {i}"))
    layer.register_full_backward_hook(lambda *_, i=i: order.append(f"backward {i}"))
loss = loss_of(model(x), y)
loss.backward()
assert order[-1] == "backward 0"
#! [lines]


def parts_of(node, known):
    """The gradients that a backward from this node adds to a parameter, each path once."""
    known.add(node)
    after = [n for n, _ in node.next_functions if n is not None]
    parts = sum(hasattr(n, "variable") for n in after)
    return parts + sum(parts_of(n, known) for n in after if n not in known and not hasattr(n, "variable"))


in_blocks = sum(1 for _ in model.layers.parameters())
parts, gradients, with_block, with_model = page("parts of")
compare("forward of the blocks", "0 1 2 3", " ".join(o[-1] for o in order if o.startswith("f")))
compare("backward of the blocks", "3 2 1 0", " ".join(o[-1] for o in order if o.startswith("b")))
compare("gradients", gradients, sum(p.grad is not None for p in model.parameters()))
compare("their parts: the tied matrix has two", parts, parts_of(loss_of(model(x), y).grad_fn, set()))
compare("gradients done with their block", with_block, in_blocks)
compare("gradients done with the model", with_model, gradients - in_blocks)
finish()
