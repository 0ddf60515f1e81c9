"""Adapters: estimators of scikit-learn, MOABB, torch and MetaBCI as decoders of a running stream."""
