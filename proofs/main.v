(* main.v: the headline theorems, restated, and what they assume (nothing: "Closed under the global context"). *)
(*                                                                                                            *)
(* R is any real field (the rationals, the reals), V any finite vocabulary, p the reference and q the          *)
(* perturbed kernel; each maps a history to a distribution.  Quantities are counted: H times the paper's.      *)
From mathcomp Require Import all_ssreflect all_algebra.
From kvdiv Require Import coupling trajectory decomposition estimator interval.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section OneStep.
Variables (R : realFieldType) (V : finType) (p q : V -> R).
Hypotheses (dp : distribution p) (dq : distribution q).

(* (2) The coupled step has marginals p and q, *)
Theorem one_step_marginals : coupling (coupled_step p q) p q.
Proof. exact: coupled_step_coupling. Qed.

(* differs with probability TV = half the L1 distance, *)
Theorem one_step_mismatch : mismatch (coupled_step p q) = (\sum_v `|p v - q v|) / 2%:R.
Proof. exact: mismatch_is_total_variation. Qed.

(* and no coupling does better. *)
Theorem one_step_maximal G : coupling G p q -> (\sum_v `|p v - q v|) / 2%:R <= mismatch G.
Proof. exact: coupling_is_maximal. Qed.

End OneStep.

Section Trajectories.
Variables (R : realFieldType) (V : finType) (p q : seq V -> V -> R) (H : nat).
Hypotheses (dp : kernel p) (dq : kernel q).

(* Each trajectory of the coupled pair has its own kernel's law. *)
Theorem trajectory_marginals (F : seq V -> R) :
  expect (coupled p q) H [::] (fun w => F (unzip1 w)) = expect p H [::] F /\
  expect (coupled p q) H [::] (fun w => F (unzip2 w)) = expect q H [::] F.
Proof. by split; [exact: trajectory_reference | exact: trajectory_perturbed]. Qed.

(* (3) The expected number of mismatches is the expected sum of the TVs. *)
Theorem risk_mean_tv :
  expect (coupled p q) H [::] (fun w => (mismatch_count w)%:R) = expect (coupled p q) H [::] (delta_sum p q H).
Proof. by rewrite risk_is_mean_tv // add0r. Qed.

Let phi := @differ V.
Let G := coupled p q.

(* (6), (7) R = O + Pi = O + E C, with 0 <= C <= 1 and C = 0 where E = 0. *)
Theorem risk_decomposition :
  [/\ risk G phi H = occurrence G phi H + occupation G phi H,
      risk G phi H = occurrence G phi H + exposure G phi H * rate G phi H,
      0 <= rate G phi H <= 1
    & exposure G phi H = 0 -> rate G phi H = 0].
Proof.
split; [exact: risk_occurrence_occupation | exact/decomposition/coupled_kernel | exact/rate_in01/coupled_kernel |].
by rewrite /rate => ->; rewrite invr0 mulr0.
Qed.

(* (9), (10) R_L <= R <= R_L + B_L. *)
Theorem risk_windows depth : (0 < depth)%N ->
  observed_risk G phi H depth <= risk G phi H <= observed_risk G phi H depth + capacity G phi H depth.
Proof. exact/window_bounds/coupled_kernel. Qed.

(* (11)-(17) SWRB's estimate of any count that is 0 on a pattern without a mismatch is unbiased. *)
Theorem swrb_counts (f : seq bool -> nat) : (forall n, f (nseq n false) = 0%N) ->
  swrb_mean p q H (counted R f) = mean G phi H f.
Proof. by move=> f0; rewrite swrb_unbiased // => u; exact: counted_both. Qed.

Theorem swrb_risk : swrb_mean p q H (counted R mismatches) = risk G phi H.
Proof. exact/swrb_counts/mismatches_nseq. Qed.

Theorem swrb_occurrence : swrb_mean p q H (counted R diverges) = occurrence G phi H.
Proof. exact/swrb_counts/diverges_nseq. Qed.

Theorem swrb_exposure : swrb_mean p q H (counted R exposed) = exposure G phi H.
Proof. exact/swrb_counts/exposed_nseq. Qed.

Theorem swrb_observed depth : swrb_mean p q H (counted R (observed depth)) = observed_risk G phi H depth.
Proof. exact/swrb_counts/observed_nseq. Qed.

Theorem swrb_capacity depth : swrb_mean p q H (counted R (unobserved depth)) = capacity G phi H depth.
Proof. exact/swrb_counts/unobserved_nseq. Qed.

(* Proposition 4.1: the variance falls by E (1 - M) sum_s w_s nu_s >= 0, for every functional Z without a mismatch 0, *)
(* hence for every linear combination of the estimates.                                                             *)
Theorem swrb_dominance (Z : seq (V * V) -> R) : (forall u, Z (both u) = 0) ->
  (naive_second p q H Z - naive_mean p q H Z ^+ 2) - (swrb_second p q H Z - swrb_mean p q H Z ^+ 2)
    = variance_gap p q H Z /\ 0 <= variance_gap p q H Z.
Proof. by move=> Z0; split; [exact: swrb_variance | exact: variance_gap_ge0]. Qed.

End Trajectories.

(* (8) The contrast of two actions, for any numbers that satisfy (7). *)
Theorem action_contrast (R : realFieldType) (Ra Oa Ea Ca Rb Ob Eb Cb : R) : Ra = Oa + Ea * Ca -> Rb = Ob + Eb * Cb ->
  Rb - Ra = (Ob - Oa) + (Eb - Ea) * ((Ca + Cb) / 2%:R) + (Cb - Ca) * ((Ea + Eb) / 2%:R).
Proof. exact: contrast. Qed.

(* Theorem 3.2, the other half of (9), (10): every admissible profile belongs to a kernel pair on two symbols with risk        *)
(* R_L + alpha B_L, for every alpha in [0, 1].  Times and lags count from 0; R_L, B_L as the paper writes them in the profile. *)
Theorem interval_attained (R : realFieldType) (H L : nat) (p : nat -> R) (rho : nat -> nat -> R) (alpha : R) :
  (forall s, 0 <= p s) -> \sum_(s < H) p s <= 1 -> (forall s j, 0 <= rho s j <= 1) -> 0 <= alpha <= 1 ->
  exists reference perturbed : seq bool -> bool -> R,
    [/\ kernel reference, kernel perturbed,
        forall s j, (s + j < H)%N -> (j < L)%N ->
          mean (coupled reference perturbed) (@differ _) H (joint s j) = p s * (if j == 0%N then 1 else rho s j)
      & risk (coupled reference perturbed) (@differ _) H = profile_observed H L p rho + alpha * profile_capacity H L p].
Proof.
move=> p0 p1 r01 a01; exists (extremal_reference R), (extremal_perturbed H L p rho alpha).
have [kr kp] := extremal_pair_kernels L p0 p1 r01 a01.
by split=> // [s j sj jL|]; [exact: extremal_profile | exact: extremal_risk].
Qed.

(* H D = sigma - tau + the mismatches after sigma, on every pattern with a mismatch. *)
Theorem agreement_identity m : diverges m = 1%N ->
  mismatches m = (first_agreement m - first_divergence m + mismatches (drop (first_agreement m) m))%N.
Proof. exact: first_agreement_identity. Qed.

Print Assumptions one_step_marginals.
Print Assumptions one_step_mismatch.
Print Assumptions one_step_maximal.
Print Assumptions trajectory_marginals.
Print Assumptions risk_mean_tv.
Print Assumptions risk_decomposition.
Print Assumptions risk_windows.
Print Assumptions swrb_counts.
Print Assumptions swrb_risk.
Print Assumptions swrb_occurrence.
Print Assumptions swrb_exposure.
Print Assumptions swrb_observed.
Print Assumptions swrb_capacity.
Print Assumptions swrb_dominance.
Print Assumptions action_contrast.
Print Assumptions agreement_identity.
Print Assumptions interval_attained.
