(* Wrong on a word: the network's answer to one word, computed in balls.

   Whole numbers grow by some bits with each symbol. Where they get long they are cut: the hidden state is then
   known up to a radius, entry by entry, and up to a positive factor, which changes no answer. Numbers that stay
   short are never cut; their radius is 0. *)
Require Import Networks Tables.

(* A hidden state in balls: a centre and a radius for each entry. *)
Definition ball := list (Z * Z).
Definition centre_at (b : ball) (j : N) : Z := fst (item j b (0, 0)).
Definition radius_at (b : ball) (j : N) : Z := snd (item j b (0, 0)).

(* h lies in the ball, times some d > 0. *)
Definition holds (b : ball) (h : vector) : Prop :=
  exists d, 0 < d /\ forall j, Z.abs (item j h 0 - d * centre_at b j) <= d * radius_at b j.

(* A row times a ball: the products with the centres, and the absolute weights times the radii. *)
Fixpoint dot_abs (r : row) (f : N -> Z) : Z :=
  match r with
  | [] => 0
  | (j, w) :: r' => Z.abs w * f j + dot_abs r' f
  end.
Definition act_ball (A : matrix) (b : ball) : ball :=
  map (fun r => (dot_at r (centre_at b), dot_abs r (radius_at b))) A.

(* Cut the lowest bits of all entries, so that about `bits` are left of the largest. *)
Definition largest (b : ball) : Z := fold_left (fun x e => Z.max x (Z.abs (fst e))) b 0.
Definition cut_by (k : Z) (b : ball) : ball := map (fun e => (Z.shiftr (fst e) k, Z.shiftr (snd e) k + 2)) b.
Definition cut (bits : Z) (b : ball) : ball :=
  let k := Z.log2 (largest b) - bits in if 0 <? k then cut_by k b else b.

(* The exact products stay in the products of balls. *)
Lemma dot_in_ball : forall r b h d, 0 < d -> (forall j, Z.abs (item j h 0 - d * centre_at b j) <= d * radius_at b j)
  ->
  Z.abs (dot r h - d * dot_at r (centre_at b)) <= d * dot_abs r (radius_at b).
Proof.
  induction r as [| [j w] r IH]; intros b h d P I; [simpl; lia |].
  change (Z.abs (w * item j h 0 + dot r h - d * (w * centre_at b j + dot_at r (centre_at b)))
    <= d * (Z.abs w * radius_at b j + dot_abs r (radius_at b))).
  pose proof (IH b h d P I) as R. pose proof (I j) as J.
  assert (E : Z.abs (w * item j h 0 - w * (d * centre_at b j)) <= Z.abs w * (d * radius_at b j)).
  { rewrite <- Z.mul_sub_distr_l, Z.abs_mul. apply Z.mul_le_mono_nonneg_l; [apply Z.abs_nonneg | exact J]. }
  replace (w * item j h 0 + dot r h - d * (w * centre_at b j + dot_at r (centre_at b)))
    with ((w * item j h 0 - w * (d * centre_at b j)) + (dot r h - d * dot_at r (centre_at b))) by ring.
  pose proof (Z.abs_triangle (w * item j h 0 - w * (d * centre_at b j)) (dot r h - d * dot_at r (centre_at b))). lia.
Qed.

(* So a symbol carries a hidden state in a ball into the next ball. *)
Lemma act_holds : forall A b h, holds b h -> holds (act_ball A b) (act A h).
Proof.
  intros A b h (d & P & I). exists d. split; [exact P |]. intro j.
  assert (E : item j (act_ball A b) (0, 0) = (dot_at (item j A []) (centre_at b), dot_abs (item j A [])
    (radius_at b))).
  { unfold item, act_ball. exact (map_nth (fun r => (dot_at r (centre_at b), dot_abs r (radius_at b)))
    A [] (N.to_nat j)). }
  unfold centre_at at 1, radius_at at 1. rewrite E, item_act. simpl. exact (dot_in_ball _ b h d P I).
Qed.

(* Cutting is within the larger radius. *)
Lemma cut_by_holds : forall k b h, 0 <= k -> holds b h -> holds (cut_by k b) h.
Proof.
  intros k b h K (d & P & I). exists (d * 2 ^ k). assert (Q : 0 < 2 ^ k) by (apply Z.pow_pos_nonneg; lia).
  split; [nia |]. intro j. specialize (I j). unfold centre_at, radius_at, cut_by, item in *.
  destruct (Nat.ltb_spec (N.to_nat j) (length b)) as [L | L].
  - rewrite nth_indep with (d' := (Z.shiftr (fst (0, 0)) k, Z.shiftr (snd (0, 0)) k + 2)) by (rewrite map_length;
    exact L).
    rewrite (map_nth (fun e => (Z.shiftr (fst e) k, Z.shiftr (snd e) k + 2)) b (0, 0)).
    destruct (nth (N.to_nat j) b (0, 0)) as [c r]. simpl in *. rewrite !Z.shiftr_div_pow2 by exact K.
    pose proof (Z.div_mod c (2 ^ k) ltac:(lia)). pose proof (Z.mod_pos_bound c (2 ^ k) Q).
    pose proof (Z.div_mod r (2 ^ k) ltac:(lia)). pose proof (Z.mod_pos_bound r (2 ^ k) Q).
    set (x := nth (N.to_nat j) h 0) in *. set (u := c / 2 ^ k) in *. set (v := r / 2 ^ k) in *.
    set (y := c mod 2 ^ k) in *. set (z := r mod 2 ^ k) in *. set (t := 2 ^ k) in *.
    assert (F : x - d * t * u = x - d * c + d * y) by nia.
    assert (d * y <= d * t) by nia. assert (d * z <= d * t) by nia. assert (d * r = d * t * v + d * z) by nia.
    rewrite F. nia.
  - rewrite (nth_overflow (map _ b)) by (rewrite map_length; exact L). rewrite (nth_overflow b) in I by exact L.
    simpl in *. nia.
Qed.

(* So does cutting to a number of bits, whether or not there is anything to cut. *)
Lemma cut_holds : forall bits b h, holds b h -> holds (cut bits b) h.
Proof.
  intros bits b h I. unfold cut. destruct (Z.ltb_spec 0 (Z.log2 (largest b) - bits)) as [L | L]; [| exact I].
  apply cut_by_holds; [lia | exact I].
Qed.

(* A word as it is read: hidden state, machine and language together. *)
Definition read (net : network) (m : machine) (l : language) (bits : Z) (s : ball * N * option N) (a : N) :
  ball * N * option N :=
  let '(b, q, r) := s in (cut bits (act_ball (item a (matrices net) []) b), next m q a, follow l r a).
Definition reads (net : network) (m : machine) (l : language) (s : ball * N * option N) (w : list N) : Prop :=
  let '(b, q, r) := s in holds b (hidden net w) /\ q = state m w /\ r = after l w.

(* Reading one more symbol keeps the ball around the hidden state, and machine and language in step. *)
Lemma read_reads : forall net m l bits s w a, reads net m l s w -> reads net m l (read net m l bits s a) (w ++ [a]).
Proof.
  intros net m l bits [[b q] r] w a (I & Q & R). subst. unfold reads, read.
  rewrite hidden_snoc, state_snoc, after_snoc.
  split; [apply cut_holds, act_holds; exact I | split; reflexivity].
Qed.

(* So does reading a word. *)
Lemma fold_reads : forall net m l bits u s w, reads net m l s w ->
  reads net m l (fold_left (read net m l bits) u s) (w ++ u).
Proof.
  intros net m l bits u. induction u as [| a u IH]; intros s w I; simpl; [rewrite app_nil_r; exact I |].
  replace (w ++ a :: u) with ((w ++ [a]) ++ u) by (rewrite <- app_assoc; reflexivity). apply IH, read_reads, I.
Qed.

(* A word that repeats: u n times. It is read by reading u n times. *)
Fixpoint power (u : list N) (n : nat) : list N :=
  match n with
  | O => []
  | S n' => u ++ power u n'
  end.
Definition word (prefix loop : list N) (times : N) (suffix : list N) : list N :=
  prefix ++ power loop (N.to_nat times) ++ suffix.

(* One more repetition may come first or last. *)
Lemma power_last : forall u n, power u n ++ u = u ++ power u n.
Proof. intros u n. induction n as [| n IH]; simpl; [rewrite app_nil_r; reflexivity |]. rewrite <- app_assoc, IH.
  reflexivity. Qed.

(* Reading u n times reads its n-th power. *)
Lemma power_reads : forall net m l bits u n s w, reads net m l s w ->
  reads net m l (Nat.iter n (fun s => fold_left (read net m l bits) u s) s) (w ++ power u n).
Proof.
  intros net m l bits u n s w I. induction n as [| n IH]; simpl; [rewrite app_nil_r; exact I |].
  rewrite <- power_last, app_assoc. apply fold_reads. exact IH.
Qed.

(* How many symbols x u^n z has. *)
Lemma size_word : forall prefix loop times suffix,
  size (word prefix loop times suffix) = (size prefix + times * size loop + size suffix)%N.
Proof.
  intros. unfold word, size. rewrite !app_length.
  assert (E : length (power loop (N.to_nat times)) = (N.to_nat times * length loop)%nat).
  { induction (N.to_nat times) as [| n IH]; simpl; [reflexivity |]. rewrite app_length, IH. reflexivity. }
  rewrite E. lia.
Qed.

(* The check: read the word, and compare two logits in balls. *)
Definition wrong (net : network) (m : machine) (l : language) (bits : Z) (prefix loop : list N) (times : N)
    (suffix : list N) (own given : N) : bool :=
  let begin := (map (fun x => (x, 0)) (initial net), start m, Some (begins l)) in
  let after_prefix := fold_left (read net m l bits) prefix begin in
  let after_loops := N.iter times (fun s => fold_left (read net m l bits) loop s) after_prefix in
  let '(b, q, r) := fold_left (read net m l bits) suffix after_loops in
  let u := item own (readout net) [] in
  let v := item given (readout net) [] in
  (item q (outputs m) 0 =? own)%N && match r with Some _ => true | None => false end
  && (given <? classes net)%N && negb (given =? own)%N
  && (dot_at u (centre_at b) + dot_abs u (radius_at b) <=? dot_at v (centre_at b) - dot_abs v (radius_at b)).

(* A word that passes the check is legal, and another class has a logit at least as large as the machine's answer. *)
Lemma wrong_logits : forall net m l bits prefix loop times suffix own given,
  wrong net m l bits prefix loop times suffix own given = true ->
  let w := word prefix loop times suffix in
  legal l w /\ answer m w = own /\ given <> own /\ (given < classes net)%N /\ logit net own w <= logit net given w.
Proof.
  intros net m l bits prefix loop times suffix own given E w. unfold wrong in E.
  set (begin := (map (fun x => (x, 0)) (initial net), start m, Some (begins l))) in E.
  assert (B : reads net m l begin []).
  { unfold begin, reads. split; [| split; reflexivity]. exists 1. split; [lia |]. intro j.
    unfold centre_at, radius_at, item. rewrite (map_nth (fun x => (x, 0)) (initial net) 0).
    cbn [fst snd hidden fold_left].
    rewrite Z.mul_1_l, Z.sub_diag. lia. }
  pose proof (fold_reads net m l bits prefix begin [] B) as B1. simpl in B1.
  pose proof (power_reads net m l bits loop (N.to_nat times) _ _ B1) as B2.
  rewrite <- N2Nat.inj_iter in B2.
  pose proof (fold_reads net m l bits suffix _ _ B2) as B3. rewrite <- app_assoc in B3.
  change (prefix ++ power loop (N.to_nat times) ++ suffix) with w in B3.
  destruct (fold_left (read net m l bits) suffix
    (N.iter times (fun s => fold_left (read net m l bits) loop s) (fold_left (read net m l bits) prefix begin)))
      as [[b q] r].
  destruct B3 as ((d & P & I) & Q & R). subst.
  repeat (apply andb_prop in E; destruct E as [E ?]).
  apply N.eqb_eq in E. apply Z.leb_le in H. apply negb_true_iff, N.eqb_neq in H0. apply N.ltb_lt in H1.
  split; [unfold legal; destruct (after l w); [discriminate | discriminate H2] |].
  split; [exact E |]. split; [exact H0 |]. split; [exact H1 |]. unfold logit.
  pose proof (dot_in_ball (item own (readout net) []) b (hidden net w) d P I).
  pose proof (dot_in_ball (item given (readout net) []) b (hidden net w) d P I).
  apply (Z.mul_le_mono_nonneg_l _ _ d) in H; [| lia]. rewrite Z.mul_add_distr_l, Z.mul_sub_distr_l in H. lia.
Qed.

(* So a word that passes the check is one on which the network is not right. *)
Theorem checked_wrong : forall net m l bits prefix loop times suffix own given,
  wrong net m l bits prefix loop times suffix own given = true ->
  let w := word prefix loop times suffix in
  legal l w /\ size w = (size prefix + times * size loop + size suffix)%N /\ answer m w = own
  /\ logit net own w <= logit net given w /\ ~ right net m w.
Proof.
  intros net m l bits prefix loop times suffix own given E w.
  destruct (wrong_logits net m l bits prefix loop times suffix own given E) as (L & A & D & C & G). fold w in L, A, G.
  split; [exact L |]. split; [apply size_word |]. split; [exact A |]. split; [exact G |].
  intros (_ & R). rewrite A in R. specialize (R given C D). lia.
Qed.
