(* estimator.v: SWRB, survival-weighted residual branching, is unbiased and never worse per replicate.      *)
(*                                                                                                          *)
(* Paper, Algorithm 1, (11)-(17) and Proposition 4.1.  A replicate scans the overlap U_1, U_2, .. with       *)
(* weights w_s = S_s e_s, S_s = prod_{j < s} (1 - e_j); chooses J with probability w_J/M, M = sum w_s; and    *)
(* follows one branch from U_<J: a fresh residual pair, then the coupled pair to the horizon.  Its estimate   *)
(* of the mean of G is M G(branch), for any G that is 0 on trajectories without a mismatch.                   *)
(*                                                                                                          *)
(* Given the scan, the chosen branch has mean sum_s (w_s/M) b_s, b_s the mean of G over branches from s, and   *)
(* second moment sum_s (w_s/M) nu_s; so both are functions of M and of B = sum_s w_s b_s (or w_s nu_s).       *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
From kvdiv Require Import coupling trajectory decomposition.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Scan.
Variables (R : realFieldType) (V : finType) (p q : seq V -> V -> R).
Hypotheses (dp : kernel p) (dq : kernel q).
Implicit Types (u : seq V) (G : seq (V * V) -> R) (g : seq V -> nat -> R) (f : R -> R -> R).

Definition split_mass u : R := total_variation (p u) (q u).

(* c/(1 - e); any distribution serves where e = 1, since the weights after it are 0. *)
Definition overlap_law u v : R :=
  if split_mass u == 1 then p u v else overlap (p u) (q u) v / (1 - split_mass u).

(* E f(M, B) over the scan of n more tokens from U = u with survival S, mass M and sum B so far;                 *)
(* g u n is what a branch from u with n tokens after its residual pair adds to B, times its weight.              *)
Fixpoint scan n u S M B g f : R :=
  if n is n'.+1 then
    \sum_v overlap_law u v *
      scan n' (rcons u v) (S * (1 - split_mass u)) (M + S * split_mass u) (B + S * split_mass u * g u n') g f
  else f M B.

Definition both u : seq (V * V) := map (fun v => (v, v)) u.

(* The mean of G over branches from u: a residual pair, then the coupled pair for n tokens. *)
Definition branch G u n : R :=
  \sum_x \sum_y residual (p u) (q u) x * residual (q u) (p u) y * expect (coupled p q) n (rcons (both u) (x, y)) G.

Lemma overlap_law_split u v : (1 - split_mass u) * overlap_law u v = overlap (p u) (q u) v.
Proof.
rewrite /overlap_law; case: eqP => [e1|/eqP e1]; last by rewrite mulrC divfK // subr_eq0 eq_sym.
rewrite e1 subrr mul0r; apply/esym/eqP; have := total_variation_overlap (dp u) (dq u).
rewrite -/(split_mass u) e1 => /esym/eqP; rewrite subr_eq addrC -subr_eq subrr eq_sym psumr_eq0 => [|w _].
  by move=> /allP/(_ v); rewrite mem_index_enum => /(_ isT).
exact: overlap_ge0.
Qed.

Lemma overlap_law_distribution u : distribution (overlap_law u).
Proof.
rewrite /overlap_law; case: eqP => [_|/eqP e1]; first exact: dp.
have e1' : 1 - split_mass u != 0 by rewrite subr_eq0 eq_sym.
split=> [v|]; first by rewrite divr_ge0 ?overlap_ge0 // subr_ge0 total_variation_le1.
by rewrite -mulr_suml -[X in X / _](subKr 1) -total_variation_overlap // divff.
Qed.

Lemma both_rcons u v : both (rcons u v) = rcons (both u) (v, v).
Proof. by rewrite /both map_rcons. Qed.

Lemma unzip1_both u : unzip1 (both u) = u.
Proof. by rewrite /unzip1 /both -map_comp map_id. Qed.

Lemma unzip2_both u : unzip2 (both u) = u.
Proof. by rewrite /unzip2 /both -map_comp map_id. Qed.

(* One coupled step from a common history: the overlap goes on, or a branch begins. *)
Lemma expect_common n u G :
  expect (coupled p q) n.+1 (both u) G =
  \sum_v overlap (p u) (q u) v * expect (coupled p q) n (both (rcons u v)) G + split_mass u * branch G u n.
Proof.
rewrite /= /coupled unzip1_both unzip2_both (coupled_step_sum _ _ (fun s => expect _ n (rcons _ s) G)).
by congr (_ + _); apply: eq_bigr => v _; rewrite both_rcons.
Qed.

(* What holds along every scan: M + S = 1, nothing is negative, and B = 0 where M = 0. *)
Definition consistent (S M B : R) := [/\ 0 <= S, 0 <= M, M + S = 1 & M = 0 -> B = 0].

Lemma consistent_step u S M B b : consistent S M B ->
  consistent (S * (1 - split_mass u)) (M + S * split_mass u) (B + S * split_mass u * b).
Proof.
move=> [S0 M0 MS B0]; have e0 : 0 <= split_mass u by exact: total_variation_ge0.
have e1 : 0 <= 1 - split_mass u by rewrite subr_ge0 total_variation_le1.
have w0 : 0 <= S * split_mass u by exact: mulr_ge0.
split; [exact: mulr_ge0 | exact: addr_ge0 | by rewrite -[RHS]MS; ring |].
move/eqP; rewrite paddr_eq0 // => /andP[/eqP Mz /eqP wz].
by rewrite (B0 Mz) wz mul0r addr0.
Qed.

Lemma eq_scan n u S M B g f f' : consistent S M B ->
  (forall S' M' B', consistent S' M' B' -> f M' B' = f' M' B') -> scan n u S M B g f = scan n u S M B g f'.
Proof.
move=> c ff; elim: n u S M B c => [|n IH] u S M B c /=; first exact: ff c.
by apply: eq_bigr => v _; rewrite IH //; exact: consistent_step.
Qed.

Lemma scanD n u S M B g f f' :
  scan n u S M B g (fun m b => f m b + f' m b) = scan n u S M B g f + scan n u S M B g f'.
Proof.
elim: n u S M B => //= n IH u S M B; rewrite -big_split /=.
by apply: eq_bigr => v _; rewrite IH; exact: mulrDr.
Qed.

Lemma scanN n u S M B g f : scan n u S M B g (fun m b => - f m b) = - scan n u S M B g f.
Proof.
elim: n u S M B => //= n IH u S M B; rewrite -sumrN.
by apply: eq_bigr => v _; rewrite IH; exact: mulrN.
Qed.

(* A function that is not negative on consistent states with B >= 0 has no negative mean, if branches add none. *)
Lemma scan_ge0 n u S M B g f : (forall w k, 0 <= g w k) -> consistent S M B -> 0 <= B ->
  (forall S' M' B', consistent S' M' B' -> 0 <= B' -> 0 <= f M' B') -> 0 <= scan n u S M B g f.
Proof.
move=> g0 + + f0; elim: n u S M B => [|n IH] u S M B c B0 /=; first exact: f0 c B0.
apply: sumr_ge0 => v _; apply: mulr_ge0; first exact: (overlap_law_distribution u).1.
apply: IH; first exact: consistent_step.
case: c => S0 _ _ _; apply: addr_ge0 => //; apply: mulr_ge0 => //; apply: mulr_ge0 => //.
exact: total_variation_ge0.
Qed.

Section Functional.
Variable G : seq (V * V) -> R.
Hypothesis G0 : forall u, G (both u) = 0.

(* E sum_s w_s b_s = E G: weights of the scan are the law of the first divergence (13). *)
Theorem scan_weights n u S M B :
  scan n u S M B (branch G) (fun _ b => b) = B + S * expect (coupled p q) n (both u) G.
Proof.
elim: n u S M B => [|n IH] u S M B; first by rewrite /= G0 mulr0 addr0.
rewrite expect_common /=; set A := B + S * _ * _.
transitivity (\sum_v (overlap_law u v * A + S * (overlap (p u) (q u) v * expect (coupled p q) n (both (rcons u v)) G))).
  by apply: eq_bigr => v _; rewrite IH -overlap_law_split; ring.
rewrite big_split /= -mulr_suml -mulr_sumr (overlap_law_distribution u).2 /A.
by set later := \sum_v _; ring.
Qed.

End Functional.

Variable horizon : nat.

(* First and second moment of M G(branch), given that J ~ w/M. *)
Definition swrb_mean G : R := scan horizon [::] 1 0 0 (branch G) (fun M B => M * (B / M)).
Definition swrb_second G : R := scan horizon [::] 1 0 0 (branch (fun w => G w ^+ 2)) (fun M B => M ^+ 2 * (B / M)).
Definition naive_mean G : R := expect (coupled p q) horizon [::] G.
Definition naive_second G : R := expect (coupled p q) horizon [::] (fun w => G w ^+ 2).

Lemma consistent_start : consistent 1 0 0.
Proof. by split; rewrite ?ler01 ?add0r. Qed.

(* SWRB is unbiased for every functional that is 0 without a mismatch: R, O, Pi, E, R_L, B_L and all their sums. *)
Theorem swrb_unbiased G : (forall u, G (both u) = 0) -> swrb_mean G = naive_mean G.
Proof.
move=> G0; rewrite /swrb_mean (eq_scan _ _ _ consistent_start (f' := fun _ b => b)); last first.
  move=> S M B [_ _ _ B0]; have [M0|M0] := eqVneq M 0; first by rewrite M0 mul0r B0.
  by rewrite mulrC divfK.
by rewrite scan_weights // mul1r add0r.
Qed.

(* E (1 - M) sum_s w_s nu_s, nu_s the second moment of G over branches from s. *)
Definition variance_gap G : R :=
  scan horizon [::] 1 0 0 (branch (fun w => G w ^+ 2)) (fun M B => (1 - M) * B).

(* Var(naive) - Var(SWRB) = E (1 - M) sum_s w_s nu_s (Proposition 4.1). *)
Theorem swrb_variance G : (forall u, G (both u) = 0) ->
  (naive_second G - naive_mean G ^+ 2) - (swrb_second G - swrb_mean G ^+ 2) = variance_gap G.
Proof.
move=> G0; have cancel (a b c : R) : (a - c) - (b - c) = a - b by ring.
rewrite swrb_unbiased // cancel.
have G20 u : (fun w => G w ^+ 2) (both u) = 0 by rewrite /= G0 expr0n.
have -> : naive_second G = scan horizon [::] 1 0 0 (branch (fun w => G w ^+ 2)) (fun _ b => b).
  by rewrite scan_weights // mul1r add0r.
rewrite /swrb_second -scanN -scanD /variance_gap; apply: eq_scan consistent_start _ => S M B [_ _ _ B0].
have [M0|M0] := eqVneq M 0; first by rewrite B0 // M0; ring.
by rewrite expr2 -mulrA (mulrC M (B / M)) divfK // mulrBl mul1r.
Qed.

(* The gap is not negative: per replicate SWRB is never worse than the naive estimator.  As this holds for every   *)
(* G, it holds for every linear combination of the estimates: the covariance matrices are ordered.                 *)
Theorem variance_gap_ge0 G : 0 <= variance_gap G.
Proof.
apply: scan_ge0 consistent_start _ _ => // [u n|S M B [S0 M0 MS _] B0].
  apply: sumr_ge0 => x _; apply: sumr_ge0 => y _; apply: mulr_ge0; first by apply: mulr_ge0; exact: residual_ge0.
  by apply: expect_ge0 => [|w _]; [exact: coupled_kernel | exact: sqr_ge0].
by rewrite mulr_ge0 // subr_ge0 -MS ler_addl.
Qed.

End Scan.

Section Functionals.
Variables (R : realFieldType) (V : finType).
Implicit Types (u : seq V).

Lemma no_mismatch u : map (@differ V) (both u) = nseq (size u) false.
Proof. by elim: u => //= v u ->; rewrite /differ eqxx. Qed.

(* Any count of the pattern that is 0 where nothing differs is a functional that SWRB estimates. *)
Definition counted (f : seq bool -> nat) (w : seq (V * V)) : R := (f (map (@differ V) w))%:R.

Lemma counted_both f u : (forall n, f (nseq n false) = 0%N) -> counted f (both u) = 0.
Proof. by move=> f0; rewrite /counted no_mismatch f0. Qed.

Lemma mismatches_nseq n : mismatches (nseq n false) = 0%N.
Proof. by rewrite /mismatches count_nseq. Qed.

Lemma find_nseq n : find id (nseq n false) = n.
Proof. by rewrite hasNfind ?size_nseq // has_nseq andbF. Qed.

Lemma diverges_nseq n : diverges (nseq n false) = 0%N.
Proof. by rewrite /diverges has_nseq andbF. Qed.

Lemma exposed_nseq n : exposed (nseq n false) = 0%N.
Proof. by rewrite /exposed /first_divergence find_nseq size_nseq subnS subnn. Qed.

Lemma observed_nseq depth n : observed depth (nseq n false) = 0%N.
Proof. by rewrite /observed find_nseq drop_oversize ?size_nseq. Qed.

Lemma unobserved_nseq depth n : unobserved depth (nseq n false) = 0%N.
Proof. by rewrite /unobserved /first_divergence find_nseq size_nseq subnS subnn. Qed.

End Functionals.
