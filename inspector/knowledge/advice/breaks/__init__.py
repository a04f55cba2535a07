"""Advice on graph breaks, one YAML file for each subject."""
