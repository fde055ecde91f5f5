# nanoGPT's character-level GPT on tiny Shakespeare: its settings, meant for one GPU. For a laptop,
# its README adds: --device=cpu --compile=False --eval_iters=20 --log_interval=1 --block_size=64
# --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000
# --dropout=0.0

out_dir = 'out-shakespeare-char'
eval_interval = 250  # a model this size soon learns its text by heart: look often
eval_iters = 200
log_interval = 10
always_save_checkpoint = False  # only when the validation loss has fallen

wandb_log = False
wandb_project = 'shakespeare-char'
wandb_run_name = 'mini-gpt'

dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 256  # characters of context

n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2

learning_rate = 1e-3  # a small model bears a high one
max_iters = 5000
lr_decay_iters = 5000  # as max_iters
min_lr = 1e-4  # a tenth of learning_rate
beta2 = 0.99  # a step has few tokens: a longer memory
warmup_iters = 100
