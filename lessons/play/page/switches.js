// The bugs that can be switched on: mutants of tests/mutants, compiled in. `changes` says which
// numbers of the table differ then; a test holds it against the engine.

export const SWITCHES = [
  {
    name: 'prefetch_is_left_out', title: 'No prefetch in backward', lesson: 13,
    changes: ['step', 'peak'],
    why: 'Every unit is gathered when its turn comes, so computation waits for it. The numbers of ' +
      'the training stay. Memory falls a little: one unit less is whole at a time.',
  },
  {
    name: 'blocks_stay_after_forward', title: 'No reshard after forward', lesson: 11,
    changes: ['step', 'peak', 'gathers', 'sent'],
    why: 'Units stay whole from forward to backward. That saves every second all-gather and a third ' +
      'of the bytes sent, and costs the memory that FSDP is to save.',
  },
  {
    name: 'memory_is_not_released', title: 'A slot is never given back', lesson: 14,
    changes: ['step', 'peak', 'reserved'],
    why: 'Each use of a unit finds all slots taken and makes a new one, so reserved memory grows in ' +
      'every step. A prefetch waits for a free slot in vain, so less is gathered ahead.',
  },
  {
    name: 'gathered_is_not_waited_for', title: 'Nobody waits for the all-gather', lesson: 13,
    changes: ['step', 'loss2', 'norm', 'equal', 'loss30'],
    why: 'Computation reads a slot before its parameters have arrived: those of another unit, or ' +
      'half of them. The step is faster, and the loss is wrong.',
  },
  {
    name: 'reduction_is_not_waited_for', title: 'Nobody waits for the reduction', lesson: 13,
    changes: ['step', 'loss2', 'norm', 'loss30'],
    why: 'The optimizer reads gradient shards into which the last sums have not been written yet.',
  },
  {
    name: 'gradients_are_not_zeroed', title: 'A gradient slot is not zeroed', lesson: 14,
    changes: ['loss2', 'norm', 'loss30'],
    why: 'Backward adds to what the unit before has left in the slot. Clipping hides how large the ' +
      'gradients have become, so the loss still falls, slowly.',
  },
  {
    name: 'gradients_are_not_reduced', title: 'The reduce-scatter is left out', lesson: 10,
    changes: ['step', 'sent', 'loss2', 'norm', 'loss30'],
    why: 'Each rank updates its shard by its own rows alone. The weights are equal on all ranks, as ' +
      'each shard has one owner, and the training still works: three quarters of the rows are lost.',
  },
  {
    name: 'only_rank_0_counts', title: 'The sum is rank 0 alone', lesson: 4,
    changes: ['loss2', 'norm', 'loss30'],
    why: 'The gradients of the other ranks are lost. Bytes and time are as ever: nothing but the ' +
      'norm and the loss can tell.',
  },
  {
    name: 'same_micro_batches_on_all_ranks', title: 'All ranks read the same rows', lesson: 5,
    changes: ['loss2', 'norm', 'loss30'],
    why: 'Four ranks compute one rank\'s gradient four times. The norm is larger, because equal ' +
      'gradients add up and different ones cancel.',
  },
  {
    name: 'micro_steps_overwrite', title: 'Micro-batches overwrite each other', lesson: 16,
    preset: { micro: 2 }, changes: ['loss2', 'norm', 'loss30'],
    why: 'The shard holds the gradient of the last micro-batch, and not the sum of both.',
  },
  {
    name: 'clip_by_local_norm', title: 'Each rank clips by its own norm', lesson: 16,
    changes: ['norm', 'loss30'],
    why: 'A rank knows the squares of its own shard only. Its norm is too small, so it clips less ' +
      'than it should, and each rank clips by another factor.',
  },
  {
    name: 'no_clip', title: 'Nobody clips', lesson: 16, changes: ['loss30'],
    why: 'Adam divides each gradient by its usual size, so the first steps look the same. The loss ' +
      'suffers later, where single steps are too large.',
  },
  {
    name: 'discarded_copy_counts_as_fresh', title: 'A discarded copy counts as fresh', lesson: 11,
    changes: ['step', 'peak', 'reserved', 'gathers', 'sent', 'loss2', 'norm', 'equal', 'loss30'],
    why: 'The unit believes that its whole parameters are still there and gathers nothing. The ' +
      'engine notices: a tensor of a shard is asked for elements that it does not have.',
  },
];

// What is measured, in the order of the table.
export const NUMBERS = {
  step: 'a step takes', peak: 'a rank holds at most', reserved: 'reserved for whole parameters',
  gathers: 'all-gathers a step', sent: 'a rank sends', loss2: 'loss of step 2',
  norm: 'gradient norm of step 2', equal: 'weights equal on all ranks', loss30: 'loss of step 30',
};
