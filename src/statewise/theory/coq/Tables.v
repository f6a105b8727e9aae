(* What the checkers share: sparse vectors, products with rows, and tables that are read entry by entry. *)
Require Import Networks.

(* After one more symbol: the hidden state moves on. *)
Lemma hidden_snoc : forall net w a, hidden net (w ++ [a]) = move net (hidden net w) a.
Proof. intros. unfold hidden. rewrite fold_left_app. reflexivity. Qed.

(* So does the machine. *)
Lemma state_snoc : forall m w a, state m (w ++ [a]) = next m (state m w) a.
Proof. intros. unfold state. rewrite fold_left_app. reflexivity. Qed.

(* So does the automaton of legal words. *)
Lemma after_snoc : forall l w a, after l (w ++ [a]) = follow l (after l w) a.
Proof. intros. unfold after. rewrite fold_left_app. reflexivity. Qed.

(* The word is one symbol longer. *)
Lemma size_snoc : forall w a, size (w ++ [a]) = N.succ (size w).
Proof. intros. unfold size. rewrite app_length. simpl. lia. Qed.

(* In the language of every word, the words over K symbols are legal. *)
Lemma over_is_legal : forall K w, over K w -> after (every K) w = Some 0%N.
Proof.
  intros K w. induction w as [| a w IH] using rev_ind; intro O; [reflexivity |].
  apply Forall_app in O. destruct O as [O1 O2]. inversion O2; subst.
  rewrite after_snoc, IH by assumption. unfold follow, every, item. simpl.
  assert (L : (N.to_nat a < N.to_nat K)%nat) by lia.
  rewrite nth_indep with (d' := Some 0%N) by (rewrite repeat_length; exact L). apply nth_repeat.
Qed.

(* A word that is legal in the language of every word over K symbols has no other symbols. *)
Lemma legal_is_over : forall K w, legal (every K) w -> over K w.
Proof.
  intros K w. induction w as [| a w IH] using rev_ind; intro L; [constructor |].
  unfold legal in L. rewrite after_snoc in L.
  destruct (after (every K) w) as [r |] eqn:E; [| contradiction].
  assert (O : over K w) by (apply IH; unfold legal; rewrite E; discriminate).
  rewrite (over_is_legal K w O) in E. inversion E; subst r.
  apply Forall_app. split; [exact O |]. constructor; [| constructor].
  destruct (N.ltb_spec a K) as [X | X]; [exact X |]. exfalso. apply L. unfold follow, every, item. simpl.
  rewrite nth_overflow; [reflexivity |]. rewrite repeat_length. lia.
Qed.

(* An entry of A h is a row of A times h, beyond the last row too: both are 0 there. *)
Lemma item_act : forall A h i, item i (act A h) 0 = dot (item i A []) h.
Proof. intros. unfold item, act. exact (map_nth (fun r => dot r h) A [] (N.to_nat i)). Qed.

(* A sparse vector that can be looked up fast: a binary tree by the digits of the place. *)
Definition tree := PositiveMap.t Z.
Definition key (i : N) : positive := N.succ_pos i.
Definition look (t : tree) (i : N) : Z :=
  match PositiveMap.find (key i) t with Some v => v | None => 0 end.
Fixpoint tree_of (r : row) : tree :=
  match r with
  | [] => PositiveMap.empty Z
  | (j, v) :: r' => PositiveMap.add (key j) v (tree_of r')
  end.

(* A row times a sparse vector, or times any vector that is given entry by entry. *)
Fixpoint dot_at (r : row) (f : N -> Z) : Z :=
  match r with
  | [] => 0
  | (j, w) :: r' => w * f j + dot_at r' f
  end.

(* Both products with a row are the same where the entries are. *)
Lemma dot_dot_at : forall r h, dot r h = dot_at r (fun j => item j h 0).
Proof. induction r as [| [j w] r IH]; intros; simpl; [reflexivity |]. rewrite IH. reflexivity. Qed.

(* Products with a row depend on entries only. *)
Lemma dot_at_ext : forall r f g, (forall j, f j = g j) -> dot_at r f = dot_at r g.
Proof. induction r as [| [j w] r IH]; intros; simpl; [reflexivity |]. rewrite H, (IH f g) by assumption. reflexivity.
  Qed.

(* A factor can be taken out of a product. *)
Lemma dot_at_scale : forall r f c, dot_at r (fun j => c * f j) = c * dot_at r f.
Proof. induction r as [| [j w] r IH]; intros; simpl; [ring |]. rewrite IH. ring. Qed.

(* The product with a sum is the sum of products. *)
Lemma dot_at_add : forall r f g, dot_at r (fun j => f j + g j) = dot_at r f + dot_at r g.
Proof. induction r as [| [j w] r IH]; intros; simpl; [ring |]. rewrite IH. ring. Qed.

(* The product with 0 is 0. *)
Lemma dot_at_zero : forall r, dot_at r (fun _ => 0) = 0.
Proof. induction r as [| [j w] r IH]; intros; simpl; [reflexivity |]. rewrite IH. ring. Qed.

(* A sparse vector whose places are all below H is 0 from H on. *)
Definition below (H : N) (r : row) : bool := forallb (fun e => (fst e <? H)%N) r.

(* Different places have different keys. *)
Lemma key_injective : forall i j, key i = key j -> i = j.
Proof. intros i j E. unfold key in E. apply (f_equal N.pos) in E. rewrite !N.succ_pos_spec in E. lia. Qed.

(* Beyond its places a sparse vector is 0. *)
Lemma look_beyond : forall H r j, below H r = true -> (H <= j)%N -> look (tree_of r) j = 0.
Proof.
  intros H r j. induction r as [| [i v] r IH]; intros B L.
  - unfold look. simpl. rewrite PositiveMap.gempty. reflexivity.
  - simpl in B. apply andb_prop in B. destruct B as [B1 B2]. apply N.ltb_lt in B1.
    unfold look. simpl. rewrite PositiveMap.gso by (intro E; apply key_injective in E; lia). exact (IH B2 L).
Qed.

(* Row by row: what f makes of the rows of a matrix equals g at their places. *)
Fixpoint agree (f : row -> Z) (g : N -> Z) (i : N) (A : matrix) : bool :=
  match A with
  | [] => true
  | r :: A' => (f r =? g i) && agree f g (N.succ i) A'
  end.

(* What `agree` has checked, at each row. *)
Lemma agree_nth : forall f g A i n, agree f g i A = true -> (n < length A)%nat ->
  f (nth n A []) = g (i + N.of_nat n)%N.
Proof.
  intros f g A. induction A as [| r A IH]; intros i n E L; simpl in L; [lia |].
  simpl in E. apply andb_prop in E. destruct E as [E1 E2]. apply Z.eqb_eq in E1. destruct n as [| n].
  - rewrite N.add_0_r. exact E1.
  - simpl. rewrite (IH (N.succ i) n E2) by lia. f_equal. lia.
Qed.

(* The same at all places, if f is 0 on an empty row and g is 0 beyond the last row. *)
Lemma agree_everywhere : forall f g A H, agree f g 0 A = true -> N.of_nat (length A) = H ->
  f [] = 0 -> (forall j, (H <= j)%N -> g j = 0) -> forall j, f (item j A []) = g j.
Proof.
  intros f g A H E L Z0 B j. unfold item. destruct (N.ltb_spec j H) as [X | X].
  - rewrite (agree_nth f g A 0 (N.to_nat j) E) by lia. f_equal. lia.
  - rewrite nth_overflow by lia. rewrite Z0, B by exact X. reflexivity.
Qed.

(* A linear combination of sparse vectors, entry by entry; it is 0 where all of them are. *)
Fixpoint mix (ks : list Z) (ts : list tree) (i : N) : Z :=
  match ks, ts with
  | k :: ks', t :: ts' => k * look t i + mix ks' ts' i
  | _, _ => 0
  end.

(* Where all of the vectors are 0, their combinations are. *)
Lemma mix_beyond : forall H rows, forallb (below H) rows = true ->
  forall ks j, (H <= j)%N -> mix ks (map tree_of rows) j = 0.
Proof.
  intros H rows. induction rows as [| r rows IH]; intros B ks j L; destruct ks as [| k ks]; simpl; try reflexivity.
  simpl in B. apply andb_prop in B. destruct B as [B1 B2]. rewrite (look_beyond H r j B1 L), (IH B2 ks j L). ring.
Qed.

(* A matrix times a vector that is given entry by entry. *)
Definition carried (A : matrix) (v : N -> Z) : N -> Z := fun i => dot_at (item i A []) v.

(* The entries of a table by their number; what is found there is in the table. *)
Fixpoint table {T : Type} (i : N) (entries : list T) : PositiveMap.t T :=
  match entries with
  | [] => PositiveMap.empty T
  | e :: rest => PositiveMap.add (key i) e (table (N.succ i) rest)
  end.

(* What is found in a table is one of its entries. *)
Lemma table_in : forall (T : Type) (entries : list T) i k e, PositiveMap.find k (table i entries) = Some e ->
  In e entries.
Proof.
  intros T. induction entries as [| d entries IH]; intros i k e F; simpl in F; [rewrite PositiveMap.gempty in F;
    discriminate |].
  destruct (Pos.eq_dec k (key i)) as [E | E].
  - subst. rewrite PositiveMap.gss in F. inversion F. left. reflexivity.
  - rewrite PositiveMap.gso in F by exact E. right. exact (IH _ _ _ F).
Qed.

(* All symbols that may follow; `ok a r s` says that the step s is right for the symbol a, on which the language
   goes to r. So there is a right step for each of these symbols. *)
Fixpoint each {S : Type} (ok : N -> N -> S -> bool) (a : N) (allowed : list (option N)) (given : list S) : bool :=
  match allowed, given with
  | [], _ => true
  | None :: rest, _ => each ok (N.succ a) rest given
  | Some r :: rest, s :: given' => ok a r s && each ok (N.succ a) rest given'
  | Some _ :: _, [] => false
  end.

(* What `each` has checked: there is a right step for each symbol that may follow. *)
Lemma each_step : forall (S : Type) (ok : N -> N -> S -> bool) allowed given a n r, each ok a allowed given = true ->
  nth n allowed None = Some r -> exists s, ok (a + N.of_nat n)%N r s = true.
Proof.
  intros S ok allowed. induction allowed as [| o allowed IH]; intros given a n r E N; [destruct n; discriminate |].
  destruct n as [| n]; simpl in N.
  - subst o. destruct given as [| s given]; [discriminate |]. simpl in E. apply andb_prop in E. destruct E as [E _].
    exists s. rewrite N.add_0_r. exact E.
  - replace (a + N.of_nat (Datatypes.S n))%N with (N.succ a + N.of_nat n)%N by lia.
    destruct o as [r' |]; simpl in E; [destruct given as [| s given]; [discriminate |]; apply andb_prop in E;
      destruct E as [_ E] |];
      exact (IH _ _ _ _ E N).
Qed.

(* A hidden state that is the beginning of a sparse vector, which ends there, equals it everywhere. *)
Fixpoint begins_with (f : N -> Z) (i : N) (h : vector) : bool :=
  match h with
  | [] => true
  | x :: h' => (x =? f i) && begins_with f (N.succ i) h'
  end.

(* What `begins_with` has checked, at each entry. *)
Lemma begins_with_nth : forall f h i n, begins_with f i h = true -> (n < length h)%nat ->
  nth n h 0 = f (i + N.of_nat n)%N.
Proof.
  intros f h. induction h as [| x h IH]; intros i n E L; simpl in L; [lia |].
  simpl in E. apply andb_prop in E. destruct E as [E1 E2]. apply Z.eqb_eq in E1. destruct n as [| n].
  - rewrite N.add_0_r. exact E1.
  - simpl. rewrite (IH (N.succ i) n E2) by lia. f_equal. lia.
Qed.

(* So the two are equal at all places, if f is 0 beyond the hidden state. *)
Lemma begins_with_item : forall f h, begins_with f 0 h = true -> (forall j, (N.of_nat (length h) <= j)%N ->
  f j = 0) ->
  forall i, item i h 0 = f i.
Proof.
  intros f h E B i. unfold item. destruct (N.ltb_spec i (N.of_nat (length h))) as [X | X].
  - rewrite (begins_with_nth f h 0 (N.to_nat i) E) by lia. f_equal. lia.
  - rewrite nth_overflow by lia. symmetry. apply B. exact X.
Qed.
