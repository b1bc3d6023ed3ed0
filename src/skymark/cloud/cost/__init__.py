"""The cost of a run on rented machines: price sources, billed time, quote, ceiling and bill."""
