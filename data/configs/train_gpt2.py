# nanoGPT's GPT-2 124M on OpenWebText: data/openwebtext/train.bin and val.bin come from its
# prepare.py. A step has 40 x 12 x 1,024 tokens; 600,000 of them take eight A100 about four days.
# What is not here is in nanogpt.py.

batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8  # over all ranks

max_iters = 600000
lr_decay_iters = max_iters

eval_interval = 1000
eval_iters = 200
log_interval = 10
weight_decay = 1e-1
