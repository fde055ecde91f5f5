#pragma once

/// The actions that a hook asks of its unit.
enum class Action { nothing, gather, discard };

/// The four hooks of a module. A recompute calls the first two inside backward, too.
enum class Hook { pre_forward, post_forward, pre_backward, post_backward };

/// What a unit is doing. pre_backward: its pre_backward hook has run, its post_backward hook has
/// not.
enum class State { idle, forward, pre_backward };

/// The exercise of lesson 17: what a unit does when a hook of its module is called.
///
/// The weights are gathered once before each forward and once before each backward of the module,
/// and are discarded after it. Between pre_backward and post_backward they are neither gathered nor
/// discarded.
///
/// @param hook  the hook that is called. Each pre_ hook is followed by its post_ hook; between
///   pre_backward and post_backward there may be pairs of forward hooks, the recomputes
/// @param state the state of the unit, which your function changes: idle at first, `forward` or
///   `pre_backward` while one of them runs, and idle again after it
/// @return what the unit does with its weights now
Action on(Hook hook, State& state);
