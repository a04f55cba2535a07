"""Advice rules, one module per subject; each rule reads the root causes and offers candidates.

A rule is a function that gets a `Scene` and yields candidates; what they say must be true for that run. `RULES` lists
all rules, specific ones first: the advice on a cause is its first candidate that no trial refutes.
"""

from collections.abc import Callable, Iterator

from ctrace.inspector.diagnosis.rules import (
    branches,
    caches,
    constructs,
    counters,
    failures,
    general,
    grad_mode,
    numbers,
    options,
    output,
    places,
    recompiles,
    results,
    shapes,
    sizes,
    training,
    values,
    wrappers,
)
from ctrace.inspector.diagnosis.scene import Candidate, Scene

Rule = Callable[[Scene], Iterator[Candidate]]

RULES: tuple[Rule, ...] = (
    results.wrong_results,
    failures.failures,
    grad_mode.unused_gradients,
    constructs.variables,
    constructs.new_leaves,
    constructs.detached,
    constructs.made_with_gradients,
    constructs.symbolic_conditions,
    output.printing,
    output.loggers,
    output.warnings_of_libraries,
    training.whole_steps,
    wrappers.torchs_own,
    numbers.numpy_on_numbers,
    numbers.integer_buffers,
    numbers.random_numbers,
    shapes.experts_of_transformers,
    branches.choices,
    branches.checks,
    values.slices,
    values.recurrent_layers,
    values.kept_numbers,
    values.used_numbers,
    values.indexed_stores,
    values.branched_numbers,
    values.numbers,
    options.torchs_options,
    options.optional_statements,
    shapes.data_dependent_shapes,
    caches.generation,
    recompiles.extra_keywords,
    caches.growing_lists,
    sizes.unrolled_loops,
    sizes.long_loops,
    sizes.dynamic_sizes,
    sizes.narrow_graphs,
    sizes.last_batches,
    counters.buffers,
    counters.open_integers,
    training.optimizer_settings,
    recompiles.optional_arguments,
    recompiles.flags,
    recompiles.one_tensor_twice,
    recompiles.switched_state,
    failures.backend_failures,
    places.other_places,
    options.nested_breaks,
    branches.loops,
    general.known_fixes,
    general.last_resort,
)
