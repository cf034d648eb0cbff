"""The whole model timed, as one kernel and as many: forward passes, whole texts, and where their time goes."""
