# %% [markdown]
# # From ten symbols to a proof
#
# A network is trained on sequences of two to ten symbols. How far can it be trusted? Scores are samples; this
# notebook ends with a proof for every length. Open it in an editor that knows `# %%` cells, or run it as a script.

# %%
import statewise as sw

machine = sw.machine("symmetric(3)")
print(sw.describe(machine))

# %% [markdown]
# The symbols are the permutations of three things, and the answer is their product. It does not commute, so rotations
# and diagonals cannot track it; full matrices can. Train:

# %%
run = sw.train(machine, "full", seed=1, hidden=32, steps=800)
print(run)

# %% [markdown]
# ## Evaluate
#
# Fifty times the training length. The worst transition stands beside the mean, and the best constant answer beside
# both.

# %%
scores = sw.evaluate(run, lengths=[10, 500])
print(scores)
assert scores.to_dict()["score"][0] == 1.0

# %% [markdown]
# ## Certify
#
# The same network, asked for a proof. Its matrices are rounded near a representation of the group, so errors add up
# along some sequence: `certify` finds it, or proves a length up to which there is none.

# %%
verdict = sw.certify(run, seconds=3.0)
print(verdict)
assert verdict.status in ("refuted", "horizon")

# %% [markdown]
# ## Polish
#
# Keep what follows the answers, and solve for it to machine precision. The machine is not used.

# %%
fine = sw.polish(run)
print(fine)
assert fine.to_dict()["horizon"] > 10**9

# %% [markdown]
# ## Extract and snap
#
# Read the machine out of the trained weights, and put it back as one-hot states. Now the proof covers every length.

# %%
found = sw.extract(run)
assert found.machine == machine
exact = sw.snap(run)
proof = sw.certify(exact)
print(proof)
assert proof.status == "proven"

# %% [markdown]
# The hidden state itself, along a word: one-hot, at every length.

# %%
word = machine.alphabet[1:] * 2
print([machine.output_names[answer] for answer in found.machine.track([machine.alphabet.index(a) for a in word])])
