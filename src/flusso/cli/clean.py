"""`flusso clean`: drop the generations of which nothing is remembered and that nobody reads."""

from __future__ import annotations

from flusso.cli.assemble import load, pipeline_spec
from flusso.cli.confirm import Yes, confirm
from flusso.cli.options import DEFAULT_CONFIG, Config, Prefix
from flusso.cli.requests import opened
from flusso.engine.roster import sinks_of
from flusso.sinks.base import Held, Sink


def clean(yes: Yes = False, config: Config = DEFAULT_CONFIG, index_prefix: Prefix = None) -> None:
    """Drop what crashes and deleted states have left: only what flusso made, and no reader sees."""
    spec = pipeline_spec(load(config, prefix=index_prefix), makes_files=False)
    is_clean = True
    for sink_spec in sinks_of(spec.indexes):
        if not sink_spec.capabilities.keeps_state:
            continue
        with opened(sink_spec) as sink:
            orphans = find_orphans(sink)
            if not orphans:
                continue
            is_clean = False
            names = ", ".join(f"{each.index} generation {each.generation}" for each in orphans)
            confirm(f'sink "{sink_spec.name}" loses {names}', yes=yes)
            for each in orphans:
                sink.drop(each.target)
                print(f'{each.index}: generation {each.generation} is dropped from sink "{sink_spec.name}"')
    if is_clean:
        print("there is nothing to drop")


def find_orphans(sink: Sink) -> list[Held]:
    """List the generations that no state speaks of and no reader sees."""
    held = sink.held()  # before the states: what is made meanwhile is not among them
    known = {(state.index, state.generation) for state in sink.load_states().all}
    return [each for each in held if not each.is_read and (each.index, each.generation) not in known]
