"""Neuracle amplifiers: TCP connection and the raw, hEEG and JellyFish formats."""
