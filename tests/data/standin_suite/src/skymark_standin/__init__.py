"""A suite whose cells sleep: stand-ins for hours of work, to hold prices against bills."""
