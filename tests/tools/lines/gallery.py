GOOD = (
    ("%gallery", ("transformer", "A Kalman filter follows a thing through noise")),
    ("%gallery mlp --text --most 5", ("one step of the training of tests/programs/mlp.py", "more records")),
    ("%gallery cnn --program", ("conv_general_dilated", "def step(")),
)

BAD = (("%gallery transformr", "no page 'transformr'. Did you mean %gallery transformer?"),)
