"""Plans of Fourier transforms."""
