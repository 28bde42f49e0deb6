"""`python -m sglang.bench_serving ARGUMENTS`: where the benchmark client lay before 0.5.16, with a warning since."""

from __future__ import annotations

import sys
import warnings

from .benchmark.serving import main
from .versions import this_version

if __name__ == "__main__":
    if this_version().has_new_texts:
        text = "`sglang.bench_serving` is deprecated; use `sglang.benchmark.serving` instead"
        warnings.warn(text, FutureWarning, stacklevel=1)
    sys.exit(main(sys.argv[1:]))
