(* Right on every word: the checker of a finite table, and the proof that it suffices.

   The table has an entry for each pair (machine state, part of hidden space) that words lead to. The part is a ray,
   all positive multiples of a point, or, where logits are a function of the state although hidden states are not, a
   ray plus a linear space: c * point + combinations of free vectors, c > 0. A positive factor of a hidden state
   changes no answer, nor does a free vector on which all logits agree. So if each symbol carries each part into the
   part of the entry that the machine goes to, and the answer's logit leads at each point, the network is right on
   every word. *)
Require Import Networks Tables.

(* How a symbol carries an entry on: to the entry `target`, with
     scale * A point = gain * point' + sum of along_i * free'_i,
   and for each free vector, with a pair (s, k) of its own,
     s * A free = sum of k_i * free'_i. *)
Record step := { target : N; scale : Z; gain : Z; along : list Z; turns : list (Z * list Z) }.

(* An entry: a machine state, a state of the language, the length of the words that lead here (up to the least
   length that is judged, `from`), a part of hidden space, and a step for each symbol that may follow. *)
Record entry := { of_state : N; of_language : N; of_length : N; point : row; free : list row; steps : list step }.

(* Steps of an orbit: to an entry, A point = gain * point'. *)
Definition to (j : N) (g : Z) : step := {| target := j; scale := 1; gain := g; along := []; turns := [] |}.
Definition plain (js : list N) : list step := map (fun j => to j 1) js.

(* An entry, ready to be looked up. *)
Record part := { entry_of : entry; centre : tree; frees : list tree }.
Definition part_of (e : entry) : part :=
  {| entry_of := e; centre := tree_of (point e); frees := map tree_of (free e) |}.

(* The checks. All free vectors of an entry are carried into the linear space of the next one. *)
Fixpoint turned (A : matrix) (ts : list tree) (given : list (Z * list Z)) (there : list tree) : bool :=
  match ts, given with
  | [], _ => true
  | t :: ts', (s, ks) :: rest =>
      (0 <? s) && agree (fun r => s * dot_at r (look t)) (mix ks there) 0 A && turned A ts' rest there
  | _ :: _, [] => false
  end.

(* One symbol, from one entry. *)
Definition step_ok (net : network) (m : machine) (from : N) (T : PositiveMap.t part) (p : part) (a r : N) (s : step)
  : bool :=
  match PositiveMap.find (key (target s)) T with
  | None => false
  | Some p' =>
      let A := item a (matrices net) [] in
      let e := entry_of p in
      let e' := entry_of p' in
      (of_state e' =? next m (of_state e) a)%N && (of_language e' =? r)%N
      && (of_length e' =? N.min from (N.succ (of_length e)))%N
      && (N.of_nat (length A) =? N.of_nat (length (initial net)))%N
      && (0 <? scale s) && (0 <? gain s)
      && agree (fun row => scale s * dot_at row (look (centre p)))
               (fun i => gain s * look (centre p') i + mix (along s) (frees p') i) 0 A
      && turned A (frees p) (turns s) (frees p')
  end.

(* The answer's logit leads at the point of an entry, and all logits agree on its free vectors. *)
Fixpoint leads (own : N) (best : Z) (at_free : list (tree * Z)) (centre : tree) (k : N) (rows : matrix) : bool :=
  match rows with
  | [] => true
  | r :: rows' =>
      ((k =? own)%N || (dot_at r (look centre) <? best) && forallb (fun tz => dot_at r (look (fst tz)) =? snd tz)
        at_free)
      && leads own best at_free centre (N.succ k) rows'
  end.
Definition answers (net : network) (m : machine) (p : part) : bool :=
  let own := item (of_state (entry_of p)) (outputs m) 0%N in
  let u := item own (readout net) [] in
  (own <? classes net)%N
  && leads own (dot_at u (look (centre p))) (map (fun t => (t, dot_at u (look t))) (frees p)) (centre p)
    0 (readout net).

(* One entry, whole. *)
Definition entry_ok (net : network) (m : machine) (l : language) (from : N) (T : PositiveMap.t part) (p : part) :
  bool :=
  let e := entry_of p in
  let H := N.of_nat (length (initial net)) in
  below H (point e) && forallb (below H) (free e)
  && (if (from <=? of_length e)%N then answers net m p else true)
  && each (step_ok net m from T p) 0 (item (of_language e) (follows l) []) (steps e).

(* The whole table. The first entry is that of the empty word; its point is the initial hidden state. *)
Definition check (net : network) (m : machine) (l : language) (from : N) (entries : list entry) : bool :=
  let parts := map part_of entries in
  match parts with
  | [] => false
  | p :: _ =>
      (of_state (entry_of p) =? start m)%N && (of_language (entry_of p) =? begins l)%N
      && (of_length (entry_of p) =? 0)%N && begins_with (look (centre p)) 0 (initial net)
      && let T := table 0 parts in forallb (entry_ok net m l from T) parts
  end.

(* Linear spaces, without coordinates: what comes from sums of multiples of vectors, and from whole-number division. *)
Inductive span (ts : list tree) : (N -> Z) -> Prop :=
  | span_zero : forall v, (forall i, v i = 0) -> span ts v
  | span_plus : forall t c v w, In t ts -> span ts v -> (forall i, w i = v i + c * look t i) -> span ts w
  | span_part : forall s v w, 0 < s -> span ts v -> (forall i, s * w i = v i) -> span ts w.

(* Multiples stay inside. *)
Lemma span_scale : forall ts v, span ts v -> forall c w, (forall i, w i = c * v i) -> span ts w.
Proof.
  intros ts v S. induction S as [v Z | t k v v' I S IH E | s v v' P S IH E]; intros c w F.
  - apply span_zero. intro i. rewrite F, Z. ring.
  - apply span_plus with t (c * k) (fun i => c * v i); [exact I | apply (IH c); reflexivity |].
    intro i. rewrite F, E. ring.
  - apply span_part with s (fun i => c * v i); [exact P | apply (IH c); reflexivity |].
    intro i. rewrite F, <- E. ring.
Qed.

(* Sums stay inside. *)
Lemma span_add : forall ts v, span ts v -> forall u w, span ts u -> (forall i, w i = v i + u i) -> span ts w.
Proof.
  intros ts v S. induction S as [v Z | t k v v' I S IH E | s v v' P S IH E]; intros u w T F.
  - apply (span_scale ts u T 1). intro i. rewrite F, Z. ring.
  - apply span_plus with t k (fun i => v i + u i); [exact I | apply (IH u); auto |].
    intro i. rewrite F, E. ring.
  - apply span_part with s (fun i => v i + s * u i); [exact P | |].
    + apply (IH (fun i => s * u i)); [apply (span_scale ts u T s); reflexivity | reflexivity].
    + intro i. rewrite F, <- E. ring.
Qed.

(* Combinations of the vectors are inside. *)
Lemma span_mix : forall ks ts us, (forall t, In t ts -> In t us) -> span us (mix ks ts).
Proof.
  induction ks as [| k ks IH]; intros ts us I; [apply span_zero; destruct ts; reflexivity |].
  destruct ts as [| t ts]; [apply span_zero; reflexivity |].
  apply span_plus with t k (mix ks ts); [apply I; left; reflexivity | apply IH; intros; apply I; right; assumption |].
  intro i. simpl. ring.
Qed.

(* A matrix that carries each free vector into a space carries all of their space there. *)
Lemma span_carried : forall A ts us, (forall t, In t ts -> span us (carried A (look t))) ->
  forall v, span ts v -> span us (carried A v).
Proof.
  intros A ts us C v S. induction S as [v Z | t k v v' I S IH E | s v v' P S IH E].
  - apply span_zero. intro i. unfold carried. rewrite (dot_at_ext _ v (fun _ => 0) Z). apply dot_at_zero.
  - apply (span_add us _ IH (fun i => k * carried A (look t) i)).
    + apply (span_scale us _ (C t I) k). reflexivity.
    + intro i. unfold carried. rewrite (dot_at_ext _ v' (fun j => v j + k * look t j) E), dot_at_add, dot_at_scale.
      reflexivity.
  - apply span_part with s (carried A v); [exact P | exact IH |].
    intro i. unfold carried. rewrite <- dot_at_scale. apply dot_at_ext. exact E.
Qed.

(* A difference of logits that is 0 on each free vector is 0 on their space. *)
Lemma span_flat : forall r u ts, (forall t, In t ts -> dot_at r (look t) = dot_at u (look t)) ->
  forall v, span ts v -> dot_at r v = dot_at u v.
Proof.
  intros r u ts C v S. induction S as [v Z | t k v v' I S IH E | s v v' P S IH E].
  - rewrite !(dot_at_ext _ v (fun _ => 0) Z), !dot_at_zero. reflexivity.
  - rewrite !(dot_at_ext _ v' (fun j => v j + k * look t j) E), !dot_at_add, !dot_at_scale, IH, (C t I). reflexivity.
  - apply Z.mul_reg_l with s; [lia |]. rewrite <- !dot_at_scale, !(dot_at_ext _ _ v E). exact IH.
Qed.

(* A hidden state lies in the part of an entry: s * h = c * point + v with s, c > 0 and v in the linear space. *)
Definition inside (p : part) (h : vector) : Prop :=
  exists s c v, 0 < s /\ 0 < c /\ span (frees p) v /\ forall i, s * item i h 0 = c * look (centre p) i + v i.

(* The sparse vectors of an entry end where hidden states do. *)
Definition ends (H : N) (p : part) : Prop :=
  (forall j, (H <= j)%N -> look (centre p) j = 0) /\ (forall ks j, (H <= j)%N -> mix ks (frees p) j = 0).

(* What `turned` has checked: each free vector is carried into the next space. *)
Lemma turned_carried : forall A ts given there H, turned A ts given there = true -> N.of_nat (length A) = H ->
  (forall ks j, (H <= j)%N -> mix ks there j = 0) -> forall t, In t ts -> span there (carried A (look t)).
Proof.
  intros A ts. induction ts as [| t ts IH]; intros given there H E L B u I; [destruct I |].
  destruct given as [| [s ks] rest]; simpl in E; [discriminate |].
  apply andb_prop in E. destruct E as [E E2]. apply andb_prop in E. destruct E as [P E1]. apply Z.ltb_lt in P.
  destruct I as [I | I]; [subst u | exact (IH rest there H E2 L B u I)].
  apply span_part with s (mix ks there); [exact P | apply span_mix; auto |].
  intro i. unfold carried.
  exact (agree_everywhere _ _ A H E1 L (Z.mul_0_r s) (fun j X => B ks j X) i).
Qed.

(* One step: if h lies in the part of an entry, A h lies in that of the next. *)
Lemma step_inside : forall net m from T p a r s, step_ok net m from T p a r s = true ->
  (forall k p', PositiveMap.find k T = Some p' -> ends (N.of_nat (length (initial net))) p') ->
  exists p', PositiveMap.find (key (target s)) T = Some p'
    /\ of_state (entry_of p') = next m (of_state (entry_of p)) a /\ of_language (entry_of p') = r
    /\ of_length (entry_of p') = N.min from (N.succ (of_length (entry_of p)))
    /\ forall h, inside p h -> inside p' (move net h a).
Proof.
  intros net m from T p a r s E B. unfold step_ok in E.
  destruct (PositiveMap.find (key (target s)) T) as [p' |] eqn:F; [| discriminate].
  exists p'. destruct (B _ _ F) as [B1 B2]. set (A := item a (matrices net) []) in *.
  repeat (apply andb_prop in E; destruct E as [E ?]).
  rename H into HT, H0 into HA, H1 into HG, H2 into HS, H3 into HL, H4 into HN, H5 into HR.
  apply N.eqb_eq in E, HR, HN, HL. apply Z.ltb_lt in HS, HG.
  repeat (split; [assumption || reflexivity |]).
  intros h (x & c & v & X & C & S & I).
  (* scale * x * A h = c * gain * point' + (c * along + scale * A v) *)
  exists (scale s * x), (c * gain s), (fun i => c * mix (along s) (frees p') i + scale s * carried A v i).
  split; [nia |]. split; [nia |]. split.
  - apply (span_add (frees p') (fun i => c * mix (along s) (frees p') i)) with (fun i => scale s * carried A v i).
    + apply (span_scale (frees p') (mix (along s) (frees p'))) with c; [apply span_mix; auto | reflexivity].
    + apply (span_scale (frees p') (carried A v)) with (scale s); [| reflexivity].
      apply (span_carried A (frees p)); [| exact S].
      exact (turned_carried A (frees p) (turns s) (frees p') _ HT HL B2).
    + reflexivity.
  - intro i. unfold move. fold A. rewrite item_act, dot_dot_at.
    assert (D : scale s * dot_at (item i A []) (look (centre p)) = gain s * look (centre p') i + mix (along s)
      (frees p') i).
    { apply (agree_everywhere _ _ A _ HA HL); [apply Z.mul_0_r |].
      intros j J. rewrite (B1 j J), (B2 (along s) j J). ring. }
    replace (scale s * x * dot_at (item i A []) (fun j => item j h 0))
      with (scale s * dot_at (item i A []) (fun j => x * item j h 0)) by (rewrite dot_at_scale; ring).
    rewrite (dot_at_ext _ _ _ I), dot_at_add, dot_at_scale. unfold carried.
    replace (scale s * (c * dot_at (item i A []) (look (centre p)) + dot_at (item i A []) v))
      with (c * (scale s * dot_at (item i A []) (look (centre p))) + scale s * dot_at (item i A []) v) by ring.
    rewrite D. ring.
Qed.

(* What `leads` has checked, for each class. *)
Lemma leads_nth : forall own best at_free c rows k n, leads own best at_free c k rows = true ->
  (n < length rows)%nat ->
  (k + N.of_nat n)%N <> own ->
  dot_at (nth n rows []) (look c) < best /\ forall t z, In (t, z) at_free -> dot_at (nth n rows []) (look t) = z.
Proof.
  intros own best at_free c rows. induction rows as [| r rows IH]; intros k n E L X; simpl in L; [lia |].
  simpl in E. apply andb_prop in E. destruct E as [E1 E2]. destruct n as [| n].
  - rewrite N.add_0_r in X. apply orb_prop in E1. destruct E1 as [E1 | E1]; [apply N.eqb_eq in E1; contradiction |].
    apply andb_prop in E1. destruct E1 as [E1 E3]. apply Z.ltb_lt in E1. split; [exact E1 |].
    intros t z I. rewrite forallb_forall in E3. apply Z.eqb_eq. exact (E3 (t, z) I).
  - apply (IH (N.succ k) n E2); [lia |]. intro Y. apply X. lia.
Qed.

(* Inside the part of an entry whose answer leads, that answer's logit is strictly the largest. *)
Lemma answers_inside : forall net m p h, answers net m p = true -> inside p h ->
  let own := item (of_state (entry_of p)) (outputs m) 0%N in
  (own < classes net)%N /\ forall k, (k < classes net)%N -> k <> own ->
    dot (item k (readout net) []) h < dot (item own (readout net) []) h.
Proof.
  intros net m p h E (s & c & v & S & C & V & I) own. unfold answers in E. fold own in E.
  apply andb_prop in E. destruct E as [E1 E2]. apply N.ltb_lt in E1. split; [exact E1 |].
  intros k K X. set (u := item own (readout net) []) in *.
  destruct (leads_nth _ _ _ _ _ 0 (N.to_nat k) E2) as [D F]; [unfold classes in K; lia | lia |].
  fold (item k (readout net) []) in D, F. set (r := item k (readout net) []) in *.
  assert (G : dot_at r v = dot_at u v).
  { apply span_flat with (frees p); [| exact V]. intros t T. apply (F t (dot_at u (look t))).
    exact (in_map (fun t => (t, dot_at u (look t))) (frees p) t T). }
  assert (Y : forall x, s * dot x h = c * dot_at x (look (centre p)) + dot_at x v).
  { intro x. rewrite dot_dot_at, <- dot_at_scale, (dot_at_ext _ _ _ I), dot_at_add, dot_at_scale. reflexivity. }
  pose proof (Y r). pose proof (Y u). nia.
Qed.

(* A table that passes the check proves the network right on every legal word of at least `from` symbols: by
   induction over the word, there is always an entry of the machine's state in whose part the hidden state lies. *)
Theorem checked_right : forall net m l from entries, check net m l from entries = true ->
  forall w, legal l w -> (from <= size w)%N -> right net m w.
Proof.
  intros net m l from entries E. unfold check in E.
  destruct (map part_of entries) as [| p0 rest] eqn:P; [discriminate |].
  set (parts := p0 :: rest) in *. set (T := table 0 parts) in *. set (H := N.of_nat (length (initial net))).
  repeat (apply andb_prop in E; destruct E as [E ?]).
  rename H0 into HE, H1 into HI, H2 into HL, H3 into HB. apply N.eqb_eq in E, HB, HL.
  rewrite forallb_forall in HE.
  assert (Ends : forall p, In p parts -> ends H p).
  { intros p I. pose proof (HE p I) as O. unfold entry_ok in O. repeat (apply andb_prop in O; destruct O as [O ?]).
    subst parts. rewrite <- P in I. apply in_map_iff in I. destruct I as (e & I & _). subst p. simpl in *.
    fold H in O, H2. split; [intros; apply look_beyond with H; assumption | intros; apply mix_beyond with H;
      assumption]. }
  assert (Inv : forall w r, after l w = Some r -> exists p, In p parts /\ of_state (entry_of p) = state m w
    /\ of_language (entry_of p) = r /\ of_length (entry_of p) = N.min from (size w) /\ inside p (hidden net w)).
  { intro w. induction w as [| a w IH] using rev_ind; intros r A.
    - exists p0. unfold after in A. simpl in A. inversion A; subst r.
      split; [left; reflexivity |]. split; [exact E |]. split; [exact HB |]. split; [rewrite HL; unfold size; simpl;
        lia |].
      exists 1, 1, (fun _ => 0). split; [lia |]. split; [lia |]. split; [apply span_zero; reflexivity |].
      intro i. rewrite Z.add_0_r. f_equal. exact (begins_with_item _ _ HI (proj1 (Ends p0 (or_introl eq_refl))) i).
    - rewrite after_snoc in A. destruct (after l w) as [r0 |] eqn:R; [| discriminate]. simpl in A.
      destruct (IH r0 eq_refl) as (p & I & Q & Q2 & N & D). pose proof (HE p I) as O. unfold entry_ok in O.
      apply andb_prop in O. destruct O as [_ O]. rewrite Q2 in O. unfold item at 2 in A.
      destruct (each_step _ _ _ _ 0 (N.to_nat a) r O) as (s & S); [exact A |].
      replace (0 + N.of_nat (N.to_nat a))%N with a in S by lia.
      destruct (step_inside net m from T p a r s S) as (p' & F & G1 & G2 & G3 & G4).
      { intros k p' F. apply Ends. exact (table_in _ _ _ _ _ F). }
      exists p'. split; [exact (table_in _ _ _ _ _ F) |]. split; [rewrite G1, Q, state_snoc; reflexivity |].
      split; [exact G2 |]. split; [rewrite G3, N, size_snoc; lia |]. rewrite hidden_snoc. exact (G4 _ D). }
  intros w W F. destruct (after l w) as [r |] eqn:R; [| unfold legal in W; congruence].
  destruct (Inv w r R) as (p & I & Q & _ & N & D). pose proof (HE p I) as O. unfold entry_ok in O.
  apply andb_prop in O. destruct O as [O _]. apply andb_prop in O. destruct O as [_ O].
  rewrite N in O. replace (N.min from (size w)) with from in O by lia. rewrite N.leb_refl in O.
  pose proof (answers_inside net m p (hidden net w) O D) as Y. simpl in Y. rewrite Q in Y. exact Y.
Qed.

(* The same for all words over the network's symbols. *)
Corollary checked_right_on_all : forall net m K from entries, check net m (every K) from entries = true ->
  forall w, over K w -> (from <= size w)%N -> right net m w.
Proof.
  intros net m K from entries E w O. apply (checked_right net m (every K) from entries E).
  unfold legal. rewrite over_is_legal by exact O. discriminate.
Qed.
