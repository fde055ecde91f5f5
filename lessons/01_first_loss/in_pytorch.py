"""The lines of lesson 01 in PyTorch, on 1 rank."""

from prelude import *

model = GPT()
optimizer = adamw(model)
x, y = next_batch()

#! [lines]
logits = model(x)
loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
loss.backward()
#! [lines]

vocabulary = logits.shape[-1]
compare("predictions of a batch", page("batch:")[2], logits.numel() // vocabulary)
compare("parameters", page("model:")[0], numel_of(model))
compare("parameters of the token table", page("model:")[1], model.wte.weight.numel())
compare("knowing nothing", page("knowing nothing: ln 52 ="), math.log(vocabulary))
for i in range(20):  # the first of these steps computes the loss above again
    loss, _ = step(model, optimizer, x, y, warm_up(i))
    x, y = next_batch()
    if i < 4 or i in (9, 19):
        compare(f"loss of step {i}", page(f"step {i}: loss")[0], loss)
finish()
