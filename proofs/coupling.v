(* coupling.v: two distributions on a finite vocabulary and the coupling of one step.              *)
(*                                                                                                 *)
(* Paper, equation (2).  With c = min(p, q) and e = TV(p, q), mass c(u) makes both sides emit u;   *)
(* with mass e they emit X from (p - c)/e and, independently, Y from (q - c)/e.                    *)
(* The numbers are those of any real field: rationals, reals.                                      *)
From mathcomp Require Import all_ssreflect all_algebra.
From mathcomp Require Import ring.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Coupling.
Variables (R : realFieldType) (V : finType).
Implicit Types (p q : V -> R) (u v : V) (G : V * V -> R).

Definition distribution p := (forall v, 0 <= p v) /\ \sum_v p v = 1.

(* TV is half the L1 distance. *)
Definition total_variation p q : R := (\sum_v `|p v - q v|) / 2%:R.

Definition overlap p q v : R := Num.min (p v) (q v).

(* p - c, the mass of the residual of p; and the residual itself, a distribution where e > 0. *)
Definition excess p q v : R := p v - overlap p q v.
Definition residual p q v : R := excess p q v / total_variation p q.

(* The coupled step, a weight for each pair of tokens. *)
Definition coupled_step p q (s : V * V) : R :=
  (s.1 == s.2)%:R * overlap p q s.1 + total_variation p q * (residual p q s.1 * residual q p s.2).

(* Any coupling of p and q, and the chance that its two tokens differ. *)
Definition coupling G p q :=
  [/\ forall s, 0 <= G s, forall x, \sum_y G (x, y) = p x & forall y, \sum_x G (x, y) = q y].
Definition mismatch G : R := \sum_(s | s.1 != s.2) G s.

Lemma overlapC p q v : overlap p q v = overlap q p v.
Proof. exact: minC. Qed.

Lemma total_variationC p q : total_variation p q = total_variation q p.
Proof. by congr (_ / _); apply: eq_bigr => v _; rewrite distrC. Qed.

Lemma excess_ge0 p q v : 0 <= excess p q v.
Proof. by rewrite subr_ge0 /overlap le_minl lexx. Qed.

Lemma overlap_ge0 p q v : distribution p -> distribution q -> 0 <= overlap p q v.
Proof. by move=> [p0 _] [q0 _]; rewrite /overlap le_minr p0 q0. Qed.

(* The residuals' supports are disjoint, so a residual pair always differs. *)
Theorem residuals_disjoint p q v : excess p q v * excess q p v = 0.
Proof.
by rewrite /excess (overlapC q); rewrite /overlap; case: leP => _; rewrite subrr ?mul0r ?mulr0.
Qed.

(* |p - q| is the sum of the two excesses. *)
Lemma distance_excess p q v : `|p v - q v| = excess p q v + excess q p v.
Proof. by rewrite /excess (overlapC q) /overlap; case: lerP => _; ring. Qed.

(* TV = 1 - sum of the overlap. *)
Theorem total_variation_overlap p q : distribution p -> distribution q ->
  total_variation p q = 1 - \sum_v overlap p q v.
Proof.
move=> [_ p1] [_ q1]; rewrite /total_variation.
under eq_bigr do rewrite distance_excess.
rewrite big_split /= !sumrB p1 q1.
have -> : \sum_v overlap q p v = \sum_v overlap p q v by apply: eq_bigr => v _; exact: overlapC.
rewrite -mulr2n -[X in X *+ 2]mulr1 -mulrnAr -mulrA divff ?mulr1 //.
by rewrite pnatr_eq0.
Qed.

Lemma sum_excess p q : distribution p -> distribution q -> \sum_v excess p q v = total_variation p q.
Proof. by move=> dp dq; rewrite total_variation_overlap // sumrB dp.2. Qed.

Lemma total_variation_ge0 p q : 0 <= total_variation p q.
Proof. by rewrite divr_ge0 ?ler0n // sumr_ge0. Qed.

Theorem total_variation_le1 p q : distribution p -> distribution q -> total_variation p q <= 1.
Proof.
by move=> dp dq; rewrite total_variation_overlap // ler_subl_addr ler_addl sumr_ge0 // => v _; exact: overlap_ge0.
Qed.

(* Where e = 0 there is no excess. *)
Lemma excess_eq0 p q v : distribution p -> distribution q -> total_variation p q = 0 -> excess p q v = 0.
Proof.
move=> dp dq; rewrite -sum_excess // => /eqP; rewrite psumr_eq0 => [/allP/(_ v)|w _]; last exact: excess_ge0.
by rewrite mem_index_enum => /(_ isT) /eqP.
Qed.

Lemma excess_residual p q v : distribution p -> distribution q ->
  total_variation p q * residual p q v = excess p q v.
Proof.
move=> dp dq; have [e0|e0] := eqVneq (total_variation p q) 0; last by rewrite mulrC divfK.
by rewrite e0 mul0r excess_eq0.
Qed.

Lemma sum_residual p q : distribution p -> distribution q -> total_variation p q != 0 -> \sum_v residual p q v = 1.
Proof. by move=> dp dq e0; rewrite -mulr_suml sum_excess // divff. Qed.

Lemma residual_ge0 p q v : 0 <= residual p q v.
Proof. by rewrite mulr_ge0 ?excess_ge0 ?invr_ge0 ?total_variation_ge0. Qed.

Lemma sum_pair (f : V * V -> R) : \sum_s f s = \sum_x \sum_y f (x, y).
Proof. by rewrite pair_bigA; apply: eq_bigr => -[]. Qed.

(* An expectation under the coupled step: the overlap's part and the residuals' part. *)
Lemma coupled_step_sum p q (f : V * V -> R) :
  \sum_s coupled_step p q s * f s =
  \sum_v overlap p q v * f (v, v)
  + total_variation p q * \sum_x \sum_y residual p q x * residual q p y * f (x, y).
Proof.
rewrite sum_pair mulr_sumr -big_split /=; apply: eq_bigr => x _.
rewrite /coupled_step mulr_sumr; under eq_bigr do rewrite mulrDl -mulrA -(mulrA (total_variation p q)).
rewrite big_split /=; congr (_ + _).
by rewrite (bigD1 x) //= eqxx mul1r big1 ?addr0 // => y /negbTE yx; rewrite eq_sym yx mul0r.
Qed.

(* Seen alone, X has law p ... *)
Theorem marginal_reference p q x : distribution p -> distribution q -> \sum_y coupled_step p q (x, y) = p x.
Proof.
move=> dp dq; rewrite /coupled_step big_split /=.
rewrite (bigD1 x) //= eqxx mul1r big1 ?addr0 => [|y /negbTE yx]; last by rewrite eq_sym yx mul0r.
rewrite -!mulr_sumr; have [e0|e0] := eqVneq (total_variation p q) 0.
  by rewrite e0 mul0r addr0; apply/esym/eqP; rewrite -subr_eq0; apply/eqP; exact: excess_eq0.
by rewrite sum_residual ?(total_variationC q) // mulr1 excess_residual // /excess addrC subrK.
Qed.

Lemma coupled_stepC p q x y : coupled_step p q (x, y) = coupled_step q p (y, x).
Proof.
rewrite /coupled_step /= (total_variationC q p) (mulrC (residual q p y)) eq_sym.
by case: eqP => [->|_]; rewrite ?mul0r // overlapC.
Qed.

(* ... and Y has law q. *)
Theorem marginal_perturbed p q y : distribution p -> distribution q -> \sum_x coupled_step p q (x, y) = q y.
Proof. by move=> dp dq; under eq_bigr do rewrite coupled_stepC; exact: marginal_reference. Qed.

Lemma coupled_step_ge0 p q s : distribution p -> distribution q -> 0 <= coupled_step p q s.
Proof.
move=> dp dq; apply: addr_ge0; first by rewrite mulr_ge0 ?ler0n ?overlap_ge0.
by rewrite mulr_ge0 ?total_variation_ge0 // mulr_ge0 ?residual_ge0.
Qed.

Theorem coupled_step_coupling p q : distribution p -> distribution q -> coupling (coupled_step p q) p q.
Proof.
by move=> dp dq; split=> *; rewrite ?marginal_reference ?marginal_perturbed ?coupled_step_ge0.
Qed.

Lemma coupled_step_distribution p q : distribution p -> distribution q ->
  (forall s, 0 <= coupled_step p q s) /\ \sum_s coupled_step p q s = 1.
Proof.
move=> dp dq; split=> [s|]; first exact: coupled_step_ge0.
by rewrite sum_pair; under eq_bigr do rewrite marginal_reference //; exact: dp.2.
Qed.

Lemma mismatch_indicator G : mismatch G = \sum_s G s * (s.1 != s.2)%:R.
Proof. by rewrite /mismatch big_mkcond; apply: eq_bigr => s _; case: ifP => _; rewrite ?mulr1 ?mulr0. Qed.

(* P(X <> Y) = TV(p, q) ... *)
Theorem mismatch_is_total_variation p q : distribution p -> distribution q ->
  mismatch (coupled_step p q) = total_variation p q.
Proof.
move=> dp dq; rewrite mismatch_indicator coupled_step_sum big1 => [|v _]; last by rewrite eqxx mulr0.
rewrite add0r; have [->|e0] := eqVneq (total_variation p q) 0; first by rewrite mul0r.
transitivity (total_variation p q * ((\sum_v residual p q v) * (\sum_v residual q p v))); last first.
  by rewrite !sum_residual ?mulr1 // total_variationC.
congr (_ * _); rewrite mulr_suml; apply: eq_bigr => x _; rewrite mulr_sumr; apply: eq_bigr => y _ /=.
have [<-|_] := eqVneq x y; rewrite ?mulr1 // mulr0 /residual mulrACA residuals_disjoint mul0r //.
Qed.

(* ... and no coupling does better. *)
Theorem coupling_is_maximal G p q : distribution p -> distribution q -> coupling G p q ->
  total_variation p q <= mismatch G.
Proof.
move=> dp dq [G0 Gp Gq].
have agree : \sum_v G (v, v) <= \sum_v overlap p q v.
  apply: ler_sum => v _; rewrite /overlap le_minr -Gp -[X in _ && (_ <= X)]Gq.
  by apply/andP; split; rewrite (bigD1 v) //= ler_addl sumr_ge0.
have total : \sum_s G s = 1 by rewrite sum_pair; under eq_bigr do rewrite Gp; exact: dp.2.
have diagonal : \sum_(s | s.1 == s.2) G s = \sum_v G (v, v).
  rewrite big_mkcond sum_pair; apply: eq_bigr => x _ /=.
  by rewrite (bigD1 x) //= eqxx big1 ?addr0 // => y /negbTE yx; rewrite eq_sym yx.
rewrite total_variation_overlap // ler_subl_addr -total (bigID (fun s => s.1 == s.2)) /= addrC.
by rewrite ler_add2l diagonal.
Qed.

End Coupling.
