"""Everything on one machine: starts, watches and stops Switchyard's processes; the demo; the corpus."""
