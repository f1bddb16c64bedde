(* interval.v: every risk between R_L and R_L + B_L belongs to a kernel pair with the same profile.            *)
(*                                                                                                            *)
(* Paper, Theorem 3.2, the half that decomposition.v (window_bounds) does not give.  A profile is the timing   *)
(* law p_s and the chances rho_{s,j} of a mismatch j steps after a first mismatch at s, j < L.  The extremal   *)
(* pair: P always emits 0; Q emits 1 with eta_s = p_s / (1 - sum_{j < s} p_j) until its first 1, with rho      *)
(* inside the window and with alpha after it.  Times and lags count from 0 here.                              *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
From kvdiv Require Import coupling trajectory decomposition.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Extremal.
Variables (R : realFieldType) (horizon : nat) (p : nat -> R) (theta : nat -> nat -> R).
Hypotheses (p_ge0 : forall s, 0 <= p s) (p_le1 : \sum_(s < horizon) p s <= 1).
Hypothesis theta01 : forall s j, 0 <= theta s j <= 1.
Implicit Types (y : seq bool) (g : nat -> nat -> R).

(* P(tau >= s), and the hazard of a first mismatch at s. *)
Definition undiverged s : R := 1 - \sum_(j < s) p j.
Definition hazard s : R := p s / undiverged s.

Definition silent (y : seq bool) (b : bool) : R := (~~ b)%:R.
Definition chance y : R :=
  if has id y then theta (find id y) (size y - find id y) else if (size y < horizon)%N then hazard (size y) else 0.
Definition extremal y (b : bool) : R := if b then chance y else 1 - chance y.

Lemma undivergedS s : undiverged s.+1 = undiverged s - p s.
Proof. by rewrite /undiverged big_ord_recr /= opprD addrA. Qed.

Lemma undiverged_ge0 s : (s <= horizon)%N -> 0 <= undiverged s.
Proof.
move=> sH; rewrite subr_ge0; apply: le_trans p_le1.
rewrite -(subnKC sH) big_split_ord /= ler_addl; exact: sumr_ge0.
Qed.

Lemma undiverged_hazard s : (s < horizon)%N -> undiverged s * hazard s = p s.
Proof.
move=> sH; rewrite /hazard; have [u0|u0] := eqVneq (undiverged s) 0; last by rewrite mulrC divfK.
rewrite u0 mul0r; apply/esym/eqP; rewrite eq_le p_ge0 andbT.
by have := undiverged_ge0 sH; rewrite undivergedS u0 sub0r oppr_ge0.
Qed.

Lemma hazard01 s : (s < horizon)%N -> 0 <= hazard s <= 1.
Proof.
move=> sH; have u0 := undiverged_ge0 (ltnW sH); rewrite /hazard divr_ge0 //=.
have [u|u] := eqVneq (undiverged s) 0; first by rewrite u invr0 mulr0 ler01.
rewrite ler_pdivr_mulr ?lt0r ?u //; rewrite mul1r -subr_ge0 -undivergedS; exact: undiverged_ge0.
Qed.

Lemma chance01 y : 0 <= chance y <= 1.
Proof.
rewrite /chance; case: ifP => _; first exact: theta01.
by case: ifP => [sH|_]; [exact: hazard01 | rewrite lexx ler01].
Qed.

Lemma silent_kernel : kernel silent.
Proof. by move=> y; split=> [[]|]; rewrite ?ler0n // big_bool /silent /= add0r. Qed.

Lemma extremal_kernel : kernel extremal.
Proof.
move=> y; have /andP[c0 c1] := chance01 y; split=> [[]|] //=; first by rewrite subr_ge0.
by rewrite big_bool /= addrC subrK.
Qed.

(* X never emits 1, so a mismatch is a 1 of Y. *)
Lemma coupled_silent (h : seq (bool * bool)) (b : bool) : coupled silent extremal h (true, b) = 0.
Proof.
have dk := coupled_step_distribution (silent_kernel (unzip1 h)) (extremal_kernel (unzip2 h)).
have /eqP := marginal_reference true (silent_kernel (unzip1 h)) (extremal_kernel (unzip2 h)).
rewrite {2}/silent /= psumr_eq0 => [/allP/(_ b)|z _]; last exact: dk.1.
by rewrite mem_index_enum => /(_ isT) /eqP.
Qed.

Lemma pattern_is_perturbed n (h : seq (bool * bool)) (F : seq bool -> R) : all (fun s => ~~ s.1) h ->
  expect (coupled silent extremal) n h (fun w => F (map (@differ _) w)) = expect extremal n (unzip2 h) F.
Proof.
rewrite -(trajectory_perturbed silent_kernel extremal_kernel).
elim: n h => [|n IH] h xh /=.
  congr (F _); elim: h xh => //= -[a b] h IH /andP[/negbTE a0 /IH ->]; rewrite /differ /= in a0 *.
  by rewrite a0; case: b.
apply: eq_bigr => -[[] b] _; first by rewrite coupled_silent !mul0r.
by rewrite IH // all_rcons.
Qed.

(* A sum over the mismatches, each weighted with the time of the first and its own. *)
Definition weighted g y : R := \sum_(t < size y) g (find id y) t * (nth false y t)%:R.

Lemma weighted_rcons g y b : has id y -> weighted g (rcons y b) = weighted g y + g (find id y) (size y) * b%:R.
Proof.
move=> hy; rewrite /weighted -cats1 find_cat hy size_cat addn1 big_ord_recr /= nth_cat ltnn subnn.
by congr (_ + _); apply: eq_bigr => t _; rewrite nth_cat ltn_ord.
Qed.

Lemma weighted_silent g t : weighted g (nseq t false) = 0.
Proof. by rewrite /weighted big1 // => i _; rewrite nth_nseq if_same mulr0. Qed.

Lemma find_first t : find id (rcons (nseq t false) true) = t.
Proof. by rewrite -cats1 find_cat has_nseq andbF size_nseq /= addn0. Qed.

Lemma weighted_first g t : weighted g (rcons (nseq t false) true) = g t t.
Proof.
rewrite /weighted find_first size_rcons size_nseq big_ord_recr /= nth_rcons size_nseq ltnn eqxx mulr1.
by rewrite big1 ?add0r // => i _; rewrite nth_rcons size_nseq ltn_ord nth_nseq if_same mulr0.
Qed.

(* After a first mismatch at s the mismatches come independently, with the chances theta s. *)
Lemma expect_after g n y : has id y ->
  expect extremal n y (weighted g) =
  weighted g y + \sum_(i < n) g (find id y) (size y + i)%N * theta (find id y) (size y + i - find id y)%N.
Proof.
elim: n y => [|n IH] y hy /=; first by rewrite big_ord0 addr0.
have step b : has id (rcons y b) by rewrite has_rcons hy orbT.
have same b : find id (rcons y b) = find id y by rewrite -cats1 find_cat hy.
have chance_y : chance y = theta (find id y) (size y - find id y) by rewrite /chance hy.
rewrite big_bool /= !IH // !weighted_rcons // !same !size_rcons big_ord_recl /= addn0 chance_y.
have -> : \sum_(i < n) g (find id y) (size y + bump 0 i)%N * theta (find id y) (size y + bump 0 i - find id y)%N =
          \sum_(i < n) g (find id y) ((size y).+1 + i)%N * theta (find id y) ((size y).+1 + i - find id y)%N.
  by apply: eq_bigr => i _; rewrite /bump leq0n add1n addSnnS.
by set rest := \sum_(i < n) _; ring.
Qed.

(* What a first mismatch at s contributes, with m more steps to come. *)
Definition contribution g s m : R := g s s + \sum_(i < m) g s (s.+1 + i)%N * theta s i.+1.

Lemma expect_first g n t : (t + n <= horizon)%N ->
  undiverged t * expect extremal n (nseq t false) (weighted g) =
  \sum_(i < n) p (t + i)%N * contribution g (t + i) (n - i.+1).
Proof.
elim: n t => [|n IH] t tn /=; first by rewrite big_ord0 weighted_silent mulr0.
have tH : (t < horizon)%N by apply: leq_trans tn; rewrite addnS ltnS leq_addr.
have chance_t : chance (nseq t false) = hazard t by rewrite /chance has_nseq andbF size_nseq tH.
have split_t (a b : R) : undiverged t * (hazard t * a + (1 - hazard t) * b) = p t * a + undiverged t.+1 * b.
  by rewrite undivergedS -(undiverged_hazard tH); ring.
rewrite big_bool /= chance_t split_t.
have -> : rcons (nseq t false) false = nseq t.+1 false by rewrite -cats1 -[[:: false]]/(nseq 1 false) -nseqD addn1.
rewrite IH; last by rewrite addSnnS.
rewrite expect_after ?has_rcons // weighted_first find_first size_rcons size_nseq big_ord_recl /= addn0 subn1 /=.
congr (p t * (_ + _) + _).
  by apply: eq_bigr => i _; rewrite addSn subSn ?leq_addr // addKn.
by apply: eq_bigr => i _; rewrite /bump leq0n add1n addSnnS subSS.
Qed.

Theorem expect_weighted g :
  expect extremal horizon [::] (weighted g) = \sum_(s < horizon) p s * contribution g s (horizon - s.+1).
Proof.
have := expect_first g (t := 0) (leqnn horizon); rewrite /undiverged big_ord0 subr0 mul1r => ->.
by apply: eq_bigr => s _.
Qed.

End Extremal.

Section Sharp.
Variables (R : realFieldType) (horizon depth : nat) (p : nat -> R) (rho : nat -> nat -> R) (alpha : R).
Hypotheses (p_ge0 : forall s, 0 <= p s) (p_le1 : \sum_(s < horizon) p s <= 1).
Hypotheses (rho01 : forall s j, 0 <= rho s j <= 1) (alpha01 : 0 <= alpha <= 1).

(* rho inside the window, alpha after it. *)
Definition window_rate s j : R := if (j < depth)%N then rho s j else alpha.
Definition extremal_reference := @silent R.
Definition extremal_perturbed := extremal horizon p window_rate.
Let G := coupled extremal_reference extremal_perturbed.

Lemma window_rate01 s j : 0 <= window_rate s j <= 1.
Proof. by rewrite /window_rate; case: ifP. Qed.

Lemma extremal_pair_kernels : kernel extremal_reference /\ kernel extremal_perturbed.
Proof. by split; [exact: silent_kernel | apply: extremal_kernel => // *; exact: window_rate01]. Qed.

Lemma mean_weighted f g : (forall m, (f m)%:R = weighted g m) ->
  mean G (@differ _) horizon f = \sum_(s < horizon) p s * contribution window_rate g s (horizon - s.+1).
Proof.
move=> fg; rewrite -(expect_weighted window_rate p_ge0 p_le1 g) /mean.
rewrite -(pattern_is_perturbed p_ge0 p_le1 window_rate01 horizon (h := [::]) (weighted g) isT).
by apply: eq_expect => u _; rewrite fg.
Qed.

(* The pair's profile is the given one: P(tau = s, I_{s+j} = 1) = p_s rho_{s,j} in the window, j >= 1, and p_s at j = 0. *)
Definition joint s j (m : seq bool) : nat := ((find id m == s) && nth false m (s + j)).

Lemma joint_weighted s j m : (joint s j m)%:R = weighted (R := R) (fun a t => (a == s)%:R * (t == s + j)%N%:R) m.
Proof.
rewrite /weighted /joint; case: eqP => [_|_] /=; last by rewrite big1 // => t _; rewrite mul0r mul0r.
have [sm|sm] := ltnP (s + j) (size m).
  rewrite (bigD1 (Ordinal sm)) //= eqxx !mul1r big1 ?addr0 // => t /eqP ts.
  by case: eqP => [e|_]; [case: ts; exact: val_inj | rewrite mulr0 mul0r].
rewrite nth_default // big1 // => t _; case: eqP => [e|_]; last by rewrite mulr0 mul0r.
by move: (ltn_ord t); rewrite e ltnNge sm.
Qed.

Theorem extremal_profile s j : (s + j < horizon)%N -> (j < depth)%N ->
  mean G (@differ _) horizon (joint s j) = p s * (if j == 0%N then 1 else rho s j).
Proof.
move=> sjH jd; rewrite (mean_weighted (joint_weighted s j)).
have sH : (s < horizon)%N by apply: leq_ltn_trans sjH; rewrite leq_addr.
rewrite (bigD1 (Ordinal sH)) //= [X in _ + X]big1 ?addr0 => [|t /eqP ts]; last first.
  have /negbTE ts' : nat_of_ord t != s by apply/eqP => e; case: ts; exact: val_inj.
  by rewrite /contribution ts' mul0r add0r big1 ?mulr0 // => i _; rewrite !mul0r.
congr (_ * _); rewrite /contribution eqxx !mul1r; case: j sjH jd => [|j] sjH jd /=.
  by rewrite addn0 eqxx big1 ?addr0 // => i _; rewrite mul1r -[X in _ == X]addn0 addSnnS eqn_add2l /= mul0r.
rewrite -[X in (X == _)%:R]addn0 eqn_add2l add0r.
have jm : (j < horizon - s.+1)%N by rewrite ltn_subRL addSnnS.
rewrite (bigD1 (Ordinal jm)) //= addSnnS eqxx !mul1r big1 ?addr0 => [|i /eqP ij].
  by rewrite /window_rate jd.
rewrite mul1r addSnnS eqn_add2l eqSS; case: eqP => [e|_]; last by rewrite mul0r.
by case: ij; exact: val_inj.
Qed.

(* R_L and B_L of the profile, counted. *)
Definition profile_observed : R :=
  \sum_(s < horizon) p s * (1 + \sum_(j < horizon - s.+1 | (j.+1 < depth)%N) rho s j.+1).
Definition profile_capacity : R :=
  \sum_(s < horizon) p s * (\sum_(j < horizon - s.+1 | ~~ (j.+1 < depth)%N) 1).

(* Its risk is R_L + alpha B_L: alpha from 0 to 1 gives every point of the interval. *)
Theorem extremal_risk : risk G (@differ _) horizon = profile_observed + alpha * profile_capacity.
Proof.
rewrite /risk (mean_weighted (g := fun _ _ => 1)) => [|m]; last first.
  rewrite /weighted /mismatches; under eq_bigr do rewrite mul1r.
  rewrite -natr_sum -sum1_count (big_nth false) big_mkord; congr (_%:R).
  by rewrite [LHS]big_mkcond; apply: eq_bigr => t _; case: nth.
rewrite /profile_observed /profile_capacity mulr_sumr -big_split /=; apply: eq_bigr => s _.
rewrite mulrCA -mulrDr -addrA; congr (_ * (_ + _)).
rewrite (bigID (fun j : 'I_(horizon - s.+1) => (j.+1 < depth)%N)) /= mulr_sumr; congr (_ + _).
  by apply: eq_bigr => j jd; rewrite mul1r /window_rate jd.
by apply: eq_bigr => j /negbTE jd; rewrite mul1r mulr1 /window_rate jd.
Qed.

End Sharp.
