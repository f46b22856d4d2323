"""Speed, measured against peers in the same run; ratios on CPU, absolute figures on a GPU only."""
