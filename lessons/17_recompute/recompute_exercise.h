#pragma once

/// What a hook tells its unit to do.
enum class Action { nothing, gather, discard };

/// The four hooks of a module. Whoever recomputes calls the first two inside its backward, too.
enum class Hook { pre_forward, post_forward, pre_backward, post_backward };

/// Where a unit is in training.
enum class State { idle, forward, pre_backward };

/// The exercise of lesson 17: what a unit does when a hook of its module is called.
///
/// Before every forward and every backward of the module its weights are gathered, once, and after
/// it they are discarded. Inside a backward nothing is gathered or discarded.
///
/// @param hook  which is called; forward hooks come in pairs, and so do backward hooks
/// @param state of the unit; you change it. It begins as idle, and is idle again when forward or
///   backward is over
/// @return what to do with the weights now
Action on(Hook hook, State& state);
