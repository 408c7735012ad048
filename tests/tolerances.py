"""How close is equal: one place for the tolerances of all tests."""

CLOSED_FORM = 1e-10
"""Against a formula that can be evaluated by hand."""
SOLVER = 1e-8
"""Against another solver, or of a certificate, as a share of the values' range."""
FINITE_DIFFERENCES = 1e-4
"""Against a difference quotient."""
FEASIBLE = 1e-9
"""How far outside its set a worst case may lie."""
STANDARD_ERRORS = 4.0
"""How many standard errors a Monte Carlo estimate may be off."""
ROUNDING = 1e-12
"""For what differs by the rounding of a few hundred operations alone, relative to the size of what is compared."""
