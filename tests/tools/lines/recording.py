GOOD = (
    ("%panels", ("stack", "time")),
    ("%panels stack time", ("jaxpr (off)",)),
    ("%panels off", ("time (off)",)),
    ("%panels on", ("stack",)),
    ("%panels --all", ("",)),
)

BAD = (("%panels stak", "not 'stak'"),)
