"""Plays a source on LSL outlets, in lockstep or in real time."""
