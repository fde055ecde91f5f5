# nanoGPT's GPT-2 124M on OpenWebText, written out: data/openwebtext/train.bin and val.bin come from
# its prepare.py. A step has 40 x 12 x 1,024 tokens; 600,000 of them take eight A100 about four days.

out_dir = 'out'
eval_interval = 1000
eval_iters = 200
log_interval = 10
always_save_checkpoint = True

dataset = 'openwebtext'
gradient_accumulation_steps = 40  # over all ranks
batch_size = 12
block_size = 1024

n_layer = 12
n_head = 12
n_embd = 768
dropout = 0.0
bias = False

learning_rate = 6e-4
max_iters = 600000
weight_decay = 1e-1
beta1 = 0.9
beta2 = 0.95
grad_clip = 1.0
warmup_iters = 2000
lr_decay_iters = 600000  # as max_iters
min_lr = 6e-5  # a tenth of learning_rate
