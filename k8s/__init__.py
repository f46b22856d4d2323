"""Deployment: the chart, images, and the scripts that check them."""
