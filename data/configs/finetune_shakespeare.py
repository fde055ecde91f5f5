# nanoGPT's finetuning of GPT-2 on tiny Shakespeare: data/shakespeare/train.bin and val.bin come from
# its prepare.py, the weights from data/gpt2-xl (--pretrained=DIR for another place). For smaller
# machines: --init_from=gpt2.

init_from = 'gpt2-xl'
out_dir = 'out-shakespeare'
eval_interval = 5
eval_iters = 40
log_interval = 1
always_save_checkpoint = False

dataset = 'shakespeare'
batch_size = 1
gradient_accumulation_steps = 32  # 32 x 1,024 tokens a step; the text has 301,966
block_size = 1024
dropout = 0.0

learning_rate = 3e-5  # constant, and small: little is left to learn
decay_lr = False
max_iters = 20
weight_decay = 1e-1
beta2 = 0.95
