"""The lines of lesson 02 in PyTorch, on 1 rank."""

from prelude import *

#! [lines]
rows = torch.randn(6, 8, dtype=torch.float64, requires_grad=True)
weight = torch.randn(8, dtype=torch.float64, requires_grad=True)
layer_norm = lambda x, w: F.layer_norm(x, (8,), w)
assert torch.autograd.gradcheck(layer_norm, (rows, weight))
#! [lines]

wanted = torch.randn(6, 8, dtype=torch.float64)  # the gradient of the output
(dx,) = torch.autograd.grad(layer_norm(rows, weight), rows, wanted)
right = 0
for r, c in ((r, c) for r in range(6) for c in range(8)):  # the slope at each element, measured
    ends = [rows.detach().clone() for _ in (0, 1)]
    ends[0][r, c] -= 1e-6
    ends[1][r, c] += 1e-6
    down, up = ((layer_norm(end, weight) * wanted).sum() for end in ends)
    right += bool(abs((up - down) / 2e-6 - dx[r, c]) < 1e-7)
kept = []
with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
    F.layer_norm(torch.randn(768, 128, requires_grad=True), (128,))
compare("elements of dx that are the slope", page("6 rows of 8: dx by hand is the slope at")[0], right)
compare("rows of dx that add up to 0", page("dx of a row adds up to 0:")[0],
        int((dx.sum(1).abs() < 1e-12).sum()))
compare("bytes kept: mean and rstd", page("kept for 768 rows of 128: mean and rstd")[0],
        bytes_of(t for t in kept if t.numel() <= 768))
compare("bytes kept besides: the input", page("kept for 768 rows of 128: mean and rstd")[1],
        bytes_of(t for t in kept if t.numel() > 768))
finish()
