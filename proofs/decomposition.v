(* decomposition.v: R = O + Pi = O + E C, its windows, and the contrast of two actions.                    *)
(*                                                                                                         *)
(* Paper, (6)-(10).  A pattern is the sequence of mismatches of a trajectory pair, H booleans.  Everything *)
(* here is counted: H R, H O, H E, H Pi; dividing by H gives the fractions of the paper.                   *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.
From kvdiv Require Import coupling trajectory.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Pattern.
Implicit Types (m : seq bool) (depth : nat).

(* tau, counted from 1; size m + 1 where nothing differs. *)
Definition first_divergence m : nat := (find id m).+1.
Definition diverges m : nat := has id m.
Definition mismatches m : nat := count id m.
Definition later m : seq bool := drop (first_divergence m) m.
Definition exposed m : nat := (size m - first_divergence m)%N.
(* Mismatches at lags 0..L-1 from tau, tau itself included, and the positions after them. *)
Definition observed depth m : nat := count id (take depth (drop (find id m) m)).
Definition unobserved depth m : nat := (size m - first_divergence m - depth.-1)%N.

Lemma mismatches_split m : mismatches m = (diverges m + mismatches (later m))%N.
Proof. by rewrite /mismatches /diverges /later /first_divergence; elim: m => [|[] m IH] //=; rewrite drop0. Qed.

Lemma later_exposed m : (mismatches (later m) <= exposed m)%N.
Proof. by rewrite /exposed -size_drop count_size. Qed.

(* H D = sigma - tau + the mismatches after sigma, sigma the first agreement after tau (H + 1 if none). *)
Definition first_agreement m : nat := (first_divergence m + (find negb (later m)).+1)%N.

Lemma mismatches_before_agreement m : mismatches m = (find negb m + mismatches (drop (find negb m) m))%N.
Proof. by rewrite /mismatches; elim: m => [|[] m IH] //=; rewrite {1}IH addnA add1n. Qed.

Lemma agreement_is_no_mismatch m : mismatches (drop (find negb m) m) = mismatches (drop (find negb m).+1 m).
Proof. by rewrite /mismatches; elim: m => [|[] m IH] //=; rewrite drop0. Qed.

Theorem first_agreement_identity m : diverges m = 1%N ->
  mismatches m = (first_agreement m - first_divergence m + mismatches (drop (first_agreement m) m))%N.
Proof.
move=> d1; rewrite mismatches_split d1 mismatches_before_agreement agreement_is_no_mismatch addnA add1n.
rewrite /first_agreement addKn; congr (_ + _)%N.
by rewrite [(first_divergence m + _)%N]addnC -drop_drop.
Qed.

Lemma observed_le depth m : (observed depth m <= mismatches m)%N.
Proof.
rewrite /mismatches -{2}(cat_take_drop (find id m) m) count_cat /observed.
rewrite -{2}(cat_take_drop depth (drop (find id m) m)) count_cat.
by rewrite addnCA leq_addr.
Qed.

Lemma le_observed depth m : (0 < depth)%N -> (mismatches m <= observed depth m + unobserved depth m)%N.
Proof.
move=> d0; have -> : mismatches m = count id (drop (find id m) m).
  rewrite /mismatches -{1}(cat_take_drop (find id m) m) count_cat.
  rewrite (_ : count id (take _ _) = 0)%N //; apply/eqP; rewrite -leqn0 leqNgt -has_count.
  by rewrite has_take_leq ?find_size // ltnn.
rewrite -{1}(cat_take_drop depth (drop (find id m) m)) count_cat leq_add2l.
apply: leq_trans (count_size _ _) _; rewrite !size_drop /unobserved /first_divergence.
by rewrite -!subnDA leq_sub2l // -{2}(prednK d0) addnS addSn.
Qed.

End Pattern.

Section Decomposition.
(* Any process over S with any test phi for a mismatch; for the coupled pair phi is `differ`. *)
Variables (R : realFieldType) (S : finType) (K : seq S -> S -> R) (phi : S -> bool) (horizon : nat).
Hypothesis dK : kernel K.

Definition mean (f : seq bool -> nat) : R := expect K horizon [::] (fun w => (f (map phi w))%:R).

Definition risk : R := mean mismatches.
Definition occurrence : R := mean diverges.
Definition occupation : R := mean (fun m => mismatches (later m)).
Definition exposure : R := mean exposed.
(* 0 where nothing is exposed: in a field x / 0 = 0. *)
Definition rate : R := occupation / exposure.
Definition observed_risk depth : R := mean (observed depth).
Definition capacity depth : R := mean (unobserved depth).

Lemma meanD f g : mean (fun m => f m + g m)%N = mean f + mean g.
Proof. by rewrite /mean -expectD; apply: eq_expect => u _; rewrite natrD. Qed.

Lemma mean_ge0 f : 0 <= mean f.
Proof. by apply: expect_ge0 => // u _; rewrite ler0n. Qed.

Lemma ler_mean f g : (forall m, (f m <= g m)%N) -> mean f <= mean g.
Proof. by move=> fg; apply: ler_expect => // u _; rewrite ler_nat. Qed.

Lemma eq_mean f g : f =1 g -> mean f = mean g.
Proof. by move=> fg; apply: eq_expect => u _; rewrite fg. Qed.

(* R = O + Pi (6). *)
Theorem risk_occurrence_occupation : risk = occurrence + occupation.
Proof. by rewrite -meanD; apply: eq_mean => m; exact: mismatches_split. Qed.

(* Pi = E C, also where E = 0. *)
Lemma occupation_exposure_rate : occupation = exposure * rate.
Proof.
rewrite /rate; have [e0|e0] := eqVneq exposure 0; last by rewrite mulrC divfK.
rewrite e0 mul0r; apply/eqP; rewrite eq_le mean_ge0 andbT -e0.
by apply: ler_mean => m; exact: later_exposed.
Qed.

(* R = O + E C (7). *)
Theorem decomposition : risk = occurrence + exposure * rate.
Proof. by rewrite risk_occurrence_occupation occupation_exposure_rate. Qed.

(* 0 <= C <= 1. *)
Theorem rate_in01 : 0 <= rate <= 1.
Proof.
rewrite /rate divr_ge0 ?mean_ge0 //=; have [e0|e0] := eqVneq exposure 0; first by rewrite e0 invr0 mulr0 ler01.
rewrite ler_pdivr_mulr ?mul1r ?lt0r ?e0 ?mean_ge0 //.
by apply: ler_mean => m; exact: later_exposed.
Qed.

(* R_L <= R <= R_L + B_L for every depth L >= 1 (9), (10). *)
Theorem window_bounds depth : (0 < depth)%N -> observed_risk depth <= risk <= observed_risk depth + capacity depth.
Proof.
move=> d0; apply/andP; split; first by apply: ler_mean => m; exact: observed_le.
by rewrite -meanD; apply: ler_mean => m; exact: le_observed.
Qed.

End Decomposition.

Section Contrast.
Variable R : realFieldType.

(* Delta R = Delta O + Delta E * mean C + Delta C * mean E (8), for any two actions. *)
Theorem contrast (Ra Oa Ea Ca Rb Ob Eb Cb : R) : Ra = Oa + Ea * Ca -> Rb = Ob + Eb * Cb ->
  Rb - Ra = (Ob - Oa) + (Eb - Ea) * ((Ca + Cb) / 2%:R) + (Cb - Ca) * ((Ea + Eb) / 2%:R).
Proof.
by move=> -> ->; field.
Qed.

End Contrast.
