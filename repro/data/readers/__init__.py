"""What several data sets read their files with, and how minibatches are drawn from them."""
