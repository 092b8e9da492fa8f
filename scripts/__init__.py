"""The commands: one thin file each. The library behind them is `scripts.tracker`."""
