"""Emotion decoder."""
