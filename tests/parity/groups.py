#!/usr/bin/env python3
"""What torch.optim.AdamW makes of three parameters in three groups, in three steps: prints the
values of groups_test.cpp. Every start and every gradient is an exact float32."""

import torch

shapes = {"a.weight": (3, 4), "a.bias": (3,), "head.weight": (2, 4)}
parameters = []
for k, shape in enumerate(shapes.values()):
    count = torch.Size(shape).numel()
    start = [((i + 5 * k) % 9 + 1) / 8 for i in range(count)]
    parameters.append(torch.nn.Parameter(torch.tensor(start).view(shape)))
groups = [
    {"params": [parameters[0]]},
    {"params": [parameters[1]], "lr": 0.001, "weight_decay": 0.0},
    {"params": [parameters[2]], "lr": 0.02, "weight_decay": 0.3},
]
optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
for step in range(1, 4):
    for k, parameter in enumerate(parameters):
        count = parameter.numel()
        grad = [((7 * i + 3 * step + k) % 11 - 5) / 8 for i in range(count)]
        parameter.grad = torch.tensor(grad).view(parameter.shape)
    optimizer.step()
for name, parameter in zip(shapes, parameters):
    print(name, ", ".join(f"{x:.9g}f" for x in parameter.detach().flatten().tolist()))
