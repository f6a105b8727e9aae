(* Right up to a length: a bound on how errors grow, its checker, and the proof that it suffices.

   Each place has a machine state and a prototype v, and a hidden state is written as a positive multiple of v plus
   an error. Errors are measured by a list of vectors, the atoms of a room: an error has size at most x if it is a
   combination of atoms whose coefficients add up to at most x, in absolute value. If a symbol carries each
   prototype to a multiple of the next one plus an error of size rho, and each atom to an error of size 1 + g,
   relative to that multiple, then errors have size at most (first + t rho) / (1 - t g) after t symbols, and answers
   are right while that is less than what turns one. Short words have places of their own, without an error and
   without atoms. *)
Require Import Networks Tables.

(* How a symbol carries a prototype: unit * A v = ratio * v' + sum of off_i * atom'_i. *)
Record arc := { into : N; ratio : Z; off : list Z }.
Record place := { in_state : N; in_language : N; in_length : N; in_room : N; prototype : row; arcs : list arc }.

(* How a symbol carries the atoms of a room: unit * A atom = sum of k_i * atom'_i, a list k for each atom, whose
   absolute values add up to at most `cost`; None for a symbol that may not follow. *)
Record passage := { next_room : N; cost : Z; shares : list (list Z) }.
Record room := { atoms : list row; passages : list (option passage) }.

(* The constants: unit > 0; rho = added / whole, g = grown / whole, first = begun / whole. *)
Record growth := { unit : Z; whole : Z; begun : Z; added : Z; grown : Z }.

(* The sum of the absolute values of coefficients. *)
Fixpoint total (ks : list Z) : Z :=
  match ks with
  | [] => 0
  | k :: ks' => Z.abs k + total ks'
  end.

(* Rooms and places, ready to be looked up; of a room also each logit of each atom. *)
Record hall := { room_of : room; atom_trees : list tree; readings : list (list Z) }.
Definition hall_of (net : network) (r : room) : hall :=
  let ts := map tree_of (atoms r) in
  {| room_of := r; atom_trees := ts; readings := map (fun u => map (fun t => dot_at u (look t)) ts) (readout net) |}.
Record spot := { place_of : place; spot_tree : tree; spot_hall : hall }.
Definition no_hall : hall := {| room_of := {| atoms := []; passages := [] |}; atom_trees := []; readings := [] |}.
Definition spot_of (halls : list hall) (p : place) : spot :=
  {| place_of := p; spot_tree := tree_of (prototype p); spot_hall := item (in_room p) halls no_hall |}.

(* The atoms of a room, on one symbol. *)
Fixpoint shared (A : matrix) (u limit : Z) (ts : list tree) (given : list (list Z)) (there : list tree) : bool :=
  match ts, given with
  | [], _ => true
  | t :: ts', ks :: rest =>
      (total ks <=? limit) && agree (fun r => u * dot_at r (look t)) (mix ks there) 0 A
        && shared A u limit ts' rest there
  | _ :: _, [] => false
  end.
Fixpoint passages_ok (net : network) (u : Z) (halls : list hall) (h : hall) (a : N) (given : list (option passage)) :
  bool :=
  match given with
  | [] => true
  | None :: rest => passages_ok net u halls h (N.succ a) rest
  | Some p :: rest =>
      let A := item a (matrices net) [] in
      let there := item (next_room p) halls no_hall in
      (N.of_nat (length A) =? N.of_nat (length (initial net)))%N
      && (0 <=? cost p) && shared A u (cost p) (atom_trees h) (shares p) (atom_trees there)
      && passages_ok net u halls h (N.succ a) rest
  end.
Definition hall_ok (net : network) (c : growth) (halls : list hall) (h : hall) : bool :=
  forallb (below (N.of_nat (length (initial net)))) (atoms (room_of h))
  && passages_ok net (unit c) halls h 0 (passages (room_of h)).

(* A prototype, on one symbol. Without atoms there is no error yet, and what comes then is the first one. *)
Definition arc_ok (net : network) (m : machine) (from : N) (c : growth) (T : PositiveMap.t spot) (s : spot)
    (a r : N) (e : arc) : bool :=
  match PositiveMap.find (key (into e)) T with
  | None => false
  | Some s' =>
      let A := item a (matrices net) [] in
      let p := place_of s in
      let p' := place_of s' in
      let there := atom_trees (spot_hall s') in
      (in_state p' =? next m (in_state p) a)%N && (in_language p' =? r)%N
      && (in_length p' =? N.min from (N.succ (in_length p)))%N
      && (N.of_nat (length A) =? N.of_nat (length (initial net)))%N
      && (0 <? ratio e)
      && agree (fun row => unit c * dot_at row (look (spot_tree s)))
               (fun i => ratio e * look (spot_tree s') i + mix (off e) there i) 0 A
      && match atom_trees (spot_hall s) with
         | [] => whole c * total (off e) <=? begun c * ratio e
         | _ :: _ =>
             match item a (passages (room_of (spot_hall s))) None with
             | None => false
             | Some q => (next_room q =? in_room p')%N && (whole c * total (off e) <=? added c * ratio e)
                 && (whole c * cost q <=? (whole c + grown c) * ratio e)
             end
         end
  end.

(* No error of the size that is reached at the horizon turns the answer of a place. *)
Fixpoint widest (xs ys : list Z) : Z :=
  match xs, ys with
  | x :: xs', y :: ys' => Z.max (Z.abs (x - y)) (widest xs' ys')
  | _, _ => 0
  end.
Fixpoint holds_out (reached left own : Z) (best : list Z) (t : tree) (k target : N) (rows : matrix)
    (read : list (list Z)) : bool :=
  match rows, read with
  | [], _ => true
  | r :: rows', zs :: read' =>
      ((k =? target)%N || (widest best zs * reached <? (own - dot_at r (look t)) * left))
      && holds_out reached left own best t (N.succ k) target rows' read'
  | _ :: _, [] => false
  end.
Definition place_ok (net : network) (m : machine) (l : language) (from upto : N) (c : growth)
    (T : PositiveMap.t spot) (s : spot) : bool :=
  let p := place_of s in
  let own := item (in_state p) (outputs m) 0%N in
  let t := Z.of_N upto in
  below (N.of_nat (length (initial net))) (prototype p)
  && (if (from <=? in_length p)%N then
        (own <? classes net)%N
        && holds_out (begun c + t * added c) (whole c - t * grown c)
             (dot_at (item own (readout net) []) (look (spot_tree s)))
             (item own (readings (spot_hall s)) []) (spot_tree s) 0 own (readout net) (readings (spot_hall s))
      else true)
  && each (arc_ok net m from c T s) 0 (item (in_language p) (follows l) []) (arcs p).

(* The whole check: words of `from` to `upto` symbols. *)
Definition check_horizon (net : network) (m : machine) (l : language) (from upto : N) (c : growth) (rooms : list room)
    (places : list place) : bool :=
  let halls := map (hall_of net) rooms in
  let spots := map (spot_of halls) places in
  match spots with
  | [] => false
  | s :: _ =>
      (0 <? unit c) && (0 <? whole c) && (0 <=? begun c) && (0 <=? added c) && (0 <=? grown c)
      && (0 <? whole c - Z.of_N upto * grown c)
      && (in_state (place_of s) =? start m)%N && (in_language (place_of s) =? begins l)%N
      && (in_length (place_of s) =? 0)%N && begins_with (look (spot_tree s)) 0 (initial net)
      && forallb (hall_ok net c halls) halls
      && let T := table 0 spots in forallb (place_ok net m l from upto c T) spots
  end.

(* Sums and multiples of coefficients: what they combine to, and what their absolute values add up to. *)
Fixpoint plus (xs ys : list Z) : list Z :=
  match xs, ys with
  | x :: xs', y :: ys' => (x + y) :: plus xs' ys'
  | [], _ => ys
  | _, [] => xs
  end.
Definition times (c : Z) (xs : list Z) : list Z := map (Z.mul c) xs.

(* Coefficients add up as the combinations do. *)
Lemma mix_plus : forall xs ys ts i, mix (plus xs ys) ts i = mix xs ts i + mix ys ts i.
Proof.
  induction xs as [| x xs IH]; intros ys ts i; [reflexivity |]. destruct ys as [| y ys]; simpl; [lia |].
  destruct ts as [| t ts]; [reflexivity |]. rewrite IH. ring.
Qed.

(* A factor of all coefficients is one of the combination. *)
Lemma mix_times : forall c xs ts i, mix (times c xs) ts i = c * mix xs ts i.
Proof. induction xs as [| x xs IH]; intros ts i; destruct ts as [| t ts]; simpl; try ring. rewrite IH. ring. Qed.

(* A sum of absolute values is not negative. *)
Lemma total_nonneg : forall xs, 0 <= total xs.
Proof. induction xs; simpl; lia. Qed.

(* That of a sum is at most the sum of both: the triangle inequality. *)
Lemma total_plus : forall xs ys, total (plus xs ys) <= total xs + total ys.
Proof. induction xs as [| x xs IH]; intros ys; [simpl; lia |]. destruct ys as [| y ys]; simpl; [lia |].
  specialize (IH ys). lia. Qed.

(* A factor counts by its absolute value. *)
Lemma total_times : forall c xs, total (times c xs) = Z.abs c * total xs.
Proof. induction xs as [| x xs IH]; simpl; [ring |]. rewrite IH, Z.abs_mul. ring. Qed.

(* What `shared` has checked: a combination of atoms is carried to one whose coefficients grow by `limit` at most. *)
Lemma shared_mix : forall A u limit ts given there H, shared A u limit ts given there = true -> 0 <= limit ->
  N.of_nat (length A) = H -> (forall ks j, (H <= j)%N -> mix ks there j = 0) ->
  forall ks, exists ks', (forall i, u * carried A (mix ks ts) i = mix ks' there i) /\ total ks' <= limit * total ks.
Proof.
  intros A u limit ts. induction ts as [| t ts IH]; intros given there H E P L B ks.
  - exists []. split; [| simpl; pose proof (total_nonneg ks); nia]. intro i. unfold carried.
    rewrite (dot_at_ext _ (mix ks []) (fun _ => 0)) by (intro; destruct ks; reflexivity). rewrite dot_at_zero. simpl.
    ring.
  - destruct given as [| ns rest]; simpl in E; [discriminate |].
    apply andb_prop in E. destruct E as [E E2]. apply andb_prop in E. destruct E as [T E1]. apply Z.leb_le in T.
    destruct ks as [| k ks].
    + exists []. split; [| simpl; lia]. intro i. unfold carried.
      rewrite (dot_at_ext _ (mix [] (t :: ts)) (fun _ => 0)) by reflexivity. rewrite dot_at_zero. simpl. ring.
    + destruct (IH rest there H E2 P L B ks) as (ks' & F & G). exists (plus (times k ns) ks'). split.
      * intro i. rewrite mix_plus, mix_times, <- F. unfold carried.
        rewrite (dot_at_ext _ (mix (k :: ks) (t :: ts)) (fun j => k * look t j + mix ks ts j)) by reflexivity.
        rewrite dot_at_add, dot_at_scale.
        pose proof (agree_everywhere _ _ A H E1 L (Z.mul_0_r u) (fun j X => B ns j X) i) as Q. simpl in Q.
        rewrite <- Q. ring.
      * pose proof (total_plus (times k ns) ks'). rewrite total_times in H0. cbn [total].
        pose proof (Z.mul_le_mono_nonneg_l (total ns) limit (Z.abs k) (Z.abs_nonneg k) T). lia.
Qed.

(* A difference of logits on a combination of atoms. *)
Lemma widest_mix : forall u r ts ks,
  Z.abs (dot_at u (mix ks ts) - dot_at r (mix ks ts))
    <= total ks * widest (map (fun t => dot_at u (look t)) ts) (map (fun t => dot_at r (look t)) ts).
Proof.
  intros u r ts. induction ts as [| t ts IH]; intro ks.
  - assert (F : forall x, dot_at x (mix ks []) = 0) by (intro x; rewrite <- (dot_at_zero x); apply dot_at_ext;
    destruct ks; reflexivity).
    rewrite !F. simpl. lia.
  - destruct ks as [| k ks].
    + assert (F : forall x, dot_at x (mix [] (t :: ts)) = 0) by (intro x; exact (dot_at_zero x)). rewrite !F. simpl.
      lia.
    + assert (F : forall x, dot_at x (mix (k :: ks) (t :: ts)) = k * dot_at x (look t) + dot_at x (mix ks ts)).
      { intro x. rewrite <- dot_at_scale, <- dot_at_add. reflexivity. }
      rewrite !F. cbn [total map widest]. specialize (IH ks).
      set (x := dot_at u (look t)) in *. set (y := dot_at r (look t)) in *.
      set (z := widest _ _) in *. set (a := dot_at u (mix ks ts)) in *. set (b := dot_at r (mix ks ts)) in *.
      replace (k * x + a - (k * y + b)) with (k * (x - y) + (a - b)) by ring.
      pose proof (Z.abs_triangle (k * (x - y)) (a - b)). rewrite Z.abs_mul in H.
      pose proof (Z.mul_le_mono_nonneg_l _ _ (Z.abs k) (Z.abs_nonneg k) (Z.le_max_l (Z.abs (x - y)) z)).
      pose proof (Z.mul_le_mono_nonneg_l _ _ (total ks) (total_nonneg ks) (Z.le_max_r (Z.abs (x - y)) z)).
      rewrite Z.mul_add_distr_r. lia.
Qed.

(* After t symbols: x * h = d * v + an error of size at most d * (first + t rho) / (1 - t g), with x, d > 0. *)
Definition near (c : growth) (t : Z) (s : spot) (h : vector) : Prop :=
  exists x d ks, 0 < x /\ 0 < d
    /\ (forall i, x * item i h 0 = d * look (spot_tree s) i + mix ks (atom_trees (spot_hall s)) i)
    /\ total ks * (whole c - t * grown c) <= d * (begun c + t * added c).

(* The bound after one more symbol, in numbers: e is the size of the error before, b what was added, c the cost. *)
Lemma bound_grows : forall W B A G t e d r b c, 0 <= e -> 0 <= b -> 0 < d -> 0 < r -> 0 < W -> 0 <= A -> 0 <= G ->
  0 <= t ->
  0 <= W - (t + 1) * G -> W * b <= A * r -> W * c <= (W + G) * r -> e * (W - t * G) <= d * (B + t * A) ->
  (d * b + c * e) * (W - (t + 1) * G) <= d * r * (B + (t + 1) * A).
Proof.
  intros W B A G t e d r b c E Bb D R Wp Ap Gp T L Hb Hc He.
  apply Z.mul_le_mono_pos_l with W; [exact Wp |]. set (M := W - (t + 1) * G) in *.
  assert (X1 : W * (d * b + c * e) <= d * (A * r) + (W + G) * r * e) by nia.
  assert (X2 : (W + G) * M <= W * (W - t * G)) by (unfold M; nia).
  assert (X3 : W * (d * b + c * e) * M <= (d * (A * r) + (W + G) * r * e) * M) by (apply Z.mul_le_mono_nonneg_r;
    assumption).
  assert (X4 : (W + G) * r * e * M <= W * (W - t * G) * (r * e)).
  { replace ((W + G) * r * e * M) with ((W + G) * M * (r * e)) by ring. apply Z.mul_le_mono_nonneg_r;
    [nia | exact X2]. }
  assert (X5 : W * r * (e * (W - t * G)) <= W * r * (d * (B + t * A))) by (apply Z.mul_le_mono_nonneg_l;
    [nia | exact He]).
  assert (X6 : d * (A * r) * M <= d * (A * r) * W) by (apply Z.mul_le_mono_nonneg_l; [nia | unfold M; nia]).
  nia.
Qed.

(* What `passages_ok` has checked, for one symbol. *)
Lemma passages_nth : forall net u halls h given a n, passages_ok net u halls h a given = true ->
  forall p, nth n given None = Some p ->
  let A := item (a + N.of_nat n)%N (matrices net) [] in
  N.of_nat (length A) = N.of_nat (length (initial net)) /\ 0 <= cost p
  /\ shared A u (cost p) (atom_trees h) (shares p) (atom_trees (item (next_room p) halls no_hall)) = true.
Proof.
  intros net u halls h given. induction given as [| o given IH]; intros a n E p L; [destruct n; discriminate |].
  destruct n as [| n]; simpl in L.
  - subst o. simpl in E. repeat (apply andb_prop in E; destruct E as [E ?]).
    rewrite N.add_0_r. apply N.eqb_eq in E. apply Z.leb_le in H1. simpl. auto.
  - replace (a + N.of_nat (S n))%N with (N.succ a + N.of_nat n)%N by lia.
    apply (IH (N.succ a) n); [destruct o; simpl in E; [apply andb_prop in E; destruct E as [_ E] |];
      exact E | exact L].
Qed.

(* What holds of all spots of a table: their room is the one of their number, and sparse vectors end where hidden
   states do. *)
Definition sound (net : network) (c : growth) (halls : list hall) (s : spot) : Prop :=
  let H := N.of_nat (length (initial net)) in
  spot_hall s = item (in_room (place_of s)) halls no_hall
  /\ (forall j, (H <= j)%N -> look (spot_tree s) j = 0)
  /\ (forall ks j, (H <= j)%N -> mix ks (atom_trees (spot_hall s)) j = 0)
  /\ (atom_trees (spot_hall s) <> [] -> hall_ok net c halls (spot_hall s) = true).

(* One symbol: a hidden state near a prototype is carried near the next one. *)
Lemma arc_near : forall net m from c halls T s a r e, arc_ok net m from c T s a r e = true -> sound net c halls s ->
  (forall k s', PositiveMap.find k T = Some s' -> sound net c halls s') ->
  0 < unit c -> 0 < whole c -> 0 <= begun c -> 0 <= added c -> 0 <= grown c ->
  exists s', PositiveMap.find (key (into e)) T = Some s'
    /\ in_state (place_of s') = next m (in_state (place_of s)) a /\ in_language (place_of s') = r
    /\ in_length (place_of s') = N.min from (N.succ (in_length (place_of s)))
    /\ forall t h, 0 <= t -> 0 <= whole c - (t + 1) * grown c -> near c t s h -> near c (t + 1) s' (move net h a).
Proof.
  intros net m from c halls T s a r e E (SH & _ & _ & SO) ST U W B0 A0 G0. unfold arc_ok in E.
  destruct (PositiveMap.find (key (into e)) T) as [s' |] eqn:F; [| discriminate].
  exists s'. destruct (ST _ _ F) as (SH' & SP & SM & _). set (A := item a (matrices net) []) in *.
  apply andb_prop in E. destruct E as [E EM]. repeat (apply andb_prop in E; destruct E as [E ?]).
  rename H into HA, H0 into HR, H1 into HL, H2 into HN, H3 into HQ. apply N.eqb_eq in E, HQ, HN, HL.
  apply Z.ltb_lt in HR.
  repeat (split; [assumption || reflexivity |]).
  intros t h T0 TL (x & d & ks & X & D & I & N).
  (* unit * A v, row by row *)
  assert (V : forall i, unit c * carried A (look (spot_tree s)) i
    = ratio e * look (spot_tree s') i + mix (off e) (atom_trees (spot_hall s')) i).
  { intro i. apply (agree_everywhere _ _ A _ HA HL); [apply Z.mul_0_r |]. intros j J. rewrite (SP j J), (SM _ j J).
  ring. }
  (* unit * x * A h = d * (ratio * v' + off) + unit * A (error) *)
  assert (Y : forall i, unit c * x * item i (move net h a) 0 = d * ratio e * look (spot_tree s') i
    + (d * mix (off e) (atom_trees (spot_hall s')) i + unit c * carried A (mix ks (atom_trees (spot_hall s))) i)).
  { intro i. unfold move. fold A. rewrite item_act, dot_dot_at.
    replace (unit c * x * dot_at (item i A []) (fun j => item j h 0))
      with (unit c * dot_at (item i A []) (fun j => x * item j h 0)) by (rewrite dot_at_scale; ring).
    rewrite (dot_at_ext _ _ _ I), dot_at_add, dot_at_scale. fold (carried A (look (spot_tree s)) i).
    fold (carried A (mix ks (atom_trees (spot_hall s))) i).
    replace (unit c * (d * carried A (look (spot_tree s)) i + carried A (mix ks (atom_trees (spot_hall s))) i))
      with (d * (unit c * carried A (look (spot_tree s)) i) + unit c * carried A (mix ks (atom_trees (spot_hall s)))
        i) by ring.
    rewrite V. ring. }
  destruct (atom_trees (spot_hall s)) as [| t0 ts] eqn:TE.
  - (* no error yet: what is off now is the first one *)
    apply Z.leb_le in EM. exists (unit c * x), (d * ratio e), (times d (off e)).
    split; [apply Z.mul_pos_pos; assumption |]. split; [apply Z.mul_pos_pos; assumption |]. split.
    + intro i. rewrite Y, mix_times. unfold carried.
      rewrite (dot_at_ext _ (mix ks []) (fun _ => 0)) by (intro; destruct ks; reflexivity). rewrite dot_at_zero. ring.
    + rewrite total_times, Z.abs_eq by lia. pose proof (total_nonneg (off e)).
      assert (Q : total (off e) * (whole c - (t + 1) * grown c) <= total (off e) * whole c)
        by (apply Z.mul_le_mono_nonneg_l; nia).
      assert (Q2 : total (off e) * (whole c - (t + 1) * grown c) <= ratio e * (begun c + (t + 1) * added c)) by nia.
      replace (d * ratio e * (begun c + (t + 1) * added c)) with (d * (ratio e * (begun c + (t + 1) * added c)))
        by ring.
      replace (d * total (off e) * (whole c - (t + 1) * grown c)) with (d * (total (off e) * (whole c - (t + 1)
        * grown c))) by ring.
      apply Z.mul_le_mono_nonneg_l; lia.
  - (* errors before, and what is added *)
    rewrite <- TE in Y. destruct (item a (passages (room_of (spot_hall s))) None) as [q |] eqn:EL; [| discriminate].
    repeat (apply andb_prop in EM; destruct EM as [EM ?]). apply N.eqb_eq in EM. apply Z.leb_le in H, H0.
    assert (O : hall_ok net c halls (spot_hall s) = true) by (apply SO; discriminate).
    unfold hall_ok in O. apply andb_prop in O. destruct O as [_ O].
    destruct (passages_nth net (unit c) halls (spot_hall s) _ 0 (N.to_nat a) O q EL) as (_ & C0 & C1).
    replace (0 + N.of_nat (N.to_nat a))%N with a in C1 by lia. fold A in C1.
    rewrite EM, <- SH' in C1.
    destruct (shared_mix A (unit c) (cost q) _ _ _ _ C1 C0 HL SM ks) as (ks' & K1 & K2).
    exists (unit c * x), (d * ratio e), (plus (times d (off e)) ks').
    split; [apply Z.mul_pos_pos; assumption |]. split; [apply Z.mul_pos_pos; assumption |]. split.
    + intro i. rewrite Y, mix_plus, mix_times, K1. ring.
    + pose proof (total_plus (times d (off e)) ks') as P. rewrite total_times, Z.abs_eq in P by lia.
      apply Z.le_trans with ((d * total (off e) + cost q * total ks) * (whole c - (t + 1) * grown c)).
      * apply Z.mul_le_mono_nonneg_r; [exact TL | lia].
      * apply bound_grows with (G := grown c) (W := whole c); try assumption; apply total_nonneg.
Qed.

(* What `holds_out` has checked, for each class. *)
Lemma holds_out_nth : forall reached left own best t target rows read k n,
  holds_out reached left own best t k target rows read = true -> (n < length rows)%nat ->
    (k + N.of_nat n)%N <> target ->
  widest best (nth n read []) * reached < (own - dot_at (nth n rows []) (look t)) * left.
Proof.
  intros reached left own best t target rows. induction rows as [| r rows IH]; intros read k n E L X; simpl in L;
    [lia |].
  destruct read as [| zs read]; [discriminate |]. simpl in E. apply andb_prop in E. destruct E as [E1 E2].
  destruct n as [| n].
  - rewrite N.add_0_r in X. apply orb_prop in E1. destruct E1 as [E1 | E1]; [apply N.eqb_eq in E1; contradiction |].
    apply Z.ltb_lt. exact E1.
  - apply (IH read (N.succ k) n E2); [lia |]. intro Y. apply X. lia.
Qed.

(* The logits of a room's atoms, of any class. *)
Definition well_read (net : network) (h : hall) : Prop := forall k,
  item k (readings h) [] = map (fun t => dot_at (item k (readout net) []) (look t)) (atom_trees h)
  \/ (classes net <= k)%N \/ readings h = [] /\ atom_trees h = [].

(* They are computed so. *)
Lemma hall_well_read : forall net r, well_read net (hall_of net r).
Proof.
  intros net r k. unfold hall_of. cbn [readings atom_trees]. destruct (N.ltb_spec k (classes net)) as [L | L];
    [| auto].
  left. unfold item. unfold classes in L.
  rewrite nth_indep with (d' := (fun u => map (fun t => dot_at u (look t)) (map tree_of (atoms r))) [])
    by (rewrite map_length; lia).
  rewrite (map_nth (fun u => map (fun t => dot_at u (look t)) (map tree_of (atoms r)))). reflexivity.
Qed.

(* The bound at the horizon is the largest: an answer that holds out against it is the network's. *)
Lemma near_right : forall net m l from upto c T s t h, place_ok net m l from upto c T s = true ->
  (from <= in_length (place_of s))%N -> well_read net (spot_hall s) -> 0 <= t <= Z.of_N upto ->
  0 <= begun c -> 0 <= added c -> 0 <= grown c -> 0 < whole c - Z.of_N upto * grown c -> near c t s h ->
  let own := item (in_state (place_of s)) (outputs m) 0%N in
  (own < classes net)%N /\ forall k, (k < classes net)%N -> k <> own ->
    dot (item k (readout net) []) h < dot (item own (readout net) []) h.
Proof.
  intros net m l from upto c T s t h E F WR T0 B0 A0 G0 WP (x & d & ks & X & D & I & N) own.
  unfold place_ok in E. apply andb_prop in E. destruct E as [E _]. apply andb_prop in E. destruct E as [_ E].
  replace (from <=? in_length (place_of s))%N with true in E by (symmetry; apply N.leb_le; exact F).
  apply andb_prop in E. destruct E as [E1 E2]. apply N.ltb_lt in E1. fold own in E1, E2. split; [exact E1 |].
  intros k K Q. pose proof (holds_out_nth _ _ _ _ _ _ _ _ 0 (N.to_nat k) E2) as O.
  specialize (O ltac:(unfold classes in K; lia) ltac:(lia)).
  fold (item k (readings (spot_hall s)) []) in O. fold (item k (readout net) []) in O.
  set (u := item own (readout net) []) in *. set (r := item k (readout net) []) in *.
  assert (R : forall j, (j < classes net)%N -> item j (readings (spot_hall s)) []
    = map (fun t => dot_at (item j (readout net) []) (look t)) (atom_trees (spot_hall s))).
  { intros j J. destruct (WR j) as [Z | [Z | (Z & Z')]]; [exact Z | lia |]. rewrite Z, Z'. unfold item.
  destruct (N.to_nat j); reflexivity. }
  rewrite (R own E1), (R k K) in O. fold u r in O.
  pose proof (widest_mix u r (atom_trees (spot_hall s)) ks) as M. set (z := widest _ _) in *.
  assert (Y : forall y, x * dot y h = d * dot_at y (look (spot_tree s))
    + dot_at y (mix ks (atom_trees (spot_hall s)))).
  { intro y. rewrite dot_dot_at, <- dot_at_scale, (dot_at_ext _ _ _ I), dot_at_add, dot_at_scale. reflexivity. }
  pose proof (Y u) as Yu. pose proof (Y r) as Yr.
  set (a := dot_at u (look (spot_tree s))) in *. set (b := dot_at r (look (spot_tree s))) in *.
  set (eu := dot_at u (mix ks _)) in *. set (er := dot_at r (mix ks _)) in *.
  set (w := whole c - Z.of_N upto * grown c) in *. set (q := begun c + Z.of_N upto * added c) in *.
  pose proof (total_nonneg ks) as P.
  assert (Z0 : 0 <= z) by (unfold z; generalize (map (fun t => dot_at u (look t)) (atom_trees (spot_hall s)));
    generalize (map (fun t => dot_at r (look t)) (atom_trees (spot_hall s)));
    intros ys xs; revert ys; induction xs as [| v xs IH]; intros ys; [simpl; lia |]; destruct ys; simpl; lia).
  (* total * w <= d * q *)
  assert (S1 : total ks * w <= d * q).
  { apply Z.le_trans with (total ks * (whole c - t * grown c)).
    - apply Z.mul_le_mono_nonneg_l; [exact P |]. apply Z.sub_le_mono_l, Z.mul_le_mono_nonneg_r; [exact G0 | apply T0].
    - apply Z.le_trans with (d * (begun c + t * added c)); [exact N |]. apply Z.mul_le_mono_nonneg_l; [lia |].
      apply Z.add_le_mono_l, Z.mul_le_mono_nonneg_r; [exact A0 | apply T0]. }
  assert (S2 : total ks * z * w < d * (a - b) * w).
  { apply Z.le_lt_trans with (d * (z * q)).
    - replace (total ks * z * w) with (z * (total ks * w)) by ring. replace (d * (z * q)) with (z * (d * q)) by ring.
      apply Z.mul_le_mono_nonneg_l; [exact Z0 | exact S1].
    - replace (d * (a - b) * w) with (d * ((a - b) * w)) by ring. apply Z.mul_lt_mono_pos_l; [exact D | exact O]. }
  apply Z.mul_lt_mono_pos_r in S2; [| exact WP].
  assert (S3 : x * dot r h < x * dot u h) by (rewrite Yu, Yr; lia).
  apply Z.mul_lt_mono_pos_l in S3; assumption.
Qed.

(* A table that passes the check proves the network right on every legal word of `from` to `upto` symbols. *)
Theorem checked_horizon : forall net m l from upto c rooms places,
  check_horizon net m l from upto c rooms places = true ->
  forall w, legal l w -> (from <= size w)%N -> (size w <= upto)%N -> right net m w.
Proof.
  intros net m l from upto c rooms places E. unfold check_horizon in E.
  set (halls := map (hall_of net) rooms) in *.
  destruct (map (spot_of halls) places) as [| s0 rest] eqn:P; [discriminate |].
  set (spots := s0 :: rest) in *. set (T := table 0 spots) in *.
  repeat (apply andb_prop in E; destruct E as [E ?]).
  rename H into HE, H0 into HH, H1 into HI, H2 into HL, H3 into HB, H4 into HS, H5 into HW, H6 into HG, H7 into HA,
    H8 into HF, H9 into HD, E into HU.
  apply N.eqb_eq in HL, HB, HS. apply Z.ltb_lt in HW, HD, HU. apply Z.leb_le in HG, HA, HF.
  rewrite forallb_forall in HE, HH.
  assert (Hall : forall s, In s spots -> In (spot_hall s) halls \/ spot_hall s = no_hall).
  { intros s I. subst spots. rewrite <- P in I. apply in_map_iff in I. destruct I as (p & I & _). subst s. simpl.
    unfold item. destruct (nth_in_or_default (N.to_nat (in_room p)) halls no_hall); auto. }
  assert (Sound : forall s, In s spots -> sound net c halls s).
  { intros s I. pose proof (HE s I) as O. pose proof (Hall s I) as J. unfold place_ok in O.
    apply andb_prop in O. destruct O as [O _]. apply andb_prop in O. destruct O as [O _].
    subst spots. rewrite <- P in I. apply in_map_iff in I. destruct I as (p & I & _).
    split; [subst s; reflexivity |]. split; [subst s; simpl in *; intros;
      apply look_beyond with (N.of_nat (length (initial net))); assumption |].
    destruct J as [J | J].
    - pose proof (HH _ J) as K. split; [| intros _; exact K]. unfold hall_ok in K. apply andb_prop in K.
      destruct K as [K _].
      unfold halls in J. apply in_map_iff in J. destruct J as (q & J & _). rewrite <- J in *. simpl in *.
      intros. apply mix_beyond with (N.of_nat (length (initial net))); assumption.
    - rewrite J. split; [intros ks j _; destruct ks; reflexivity | intro X; exfalso; apply X; reflexivity]. }
  assert (Inv : forall w r, after l w = Some r -> (size w <= upto)%N -> exists s, In s spots
    /\ in_state (place_of s) = state m w /\ in_language (place_of s) = r
      /\ in_length (place_of s) = N.min from (size w)
    /\ near c (Z.of_N (size w)) s (hidden net w)).
  { intro w. induction w as [| a w IH] using rev_ind; intros r A S.
    - exists s0. unfold after in A. simpl in A. inversion A; subst r.
      split; [left; reflexivity |]. split; [exact HS |]. split; [exact HB |]. split; [rewrite HL; unfold size; simpl;
        lia |].
      destruct (Sound s0 (or_introl eq_refl)) as (_ & SP & _).
      exists 1, 1, []. split; [lia |]. split; [lia |]. split.
      + intro i. change (hidden net []) with (initial net). rewrite (begins_with_item _ _ HI SP i).
        destruct (atom_trees (spot_hall s0)); simpl; lia.
      + change (size []) with 0%N. cbn [total Z.of_N]. lia.
    - rewrite after_snoc in A. destruct (after l w) as [r0 |] eqn:R; [| discriminate]. simpl in A.
      rewrite size_snoc in S.
      destruct (IH r0 eq_refl ltac:(lia)) as (s & I & Q & Q2 & N & D). pose proof (HE s I) as O. unfold place_ok in O.
      apply andb_prop in O. destruct O as [_ O]. rewrite Q2 in O. unfold item at 2 in A.
      destruct (each_step _ _ _ _ 0 (N.to_nat a) r O) as (e & X); [exact A |].
      replace (0 + N.of_nat (N.to_nat a))%N with a in X by lia.
      destruct (arc_near net m from c halls T s a r e X (Sound s I)) as (s' & F & G1 & G2 & G3 & G4); try assumption.
      { intros k s' F. apply Sound. exact (table_in _ _ _ _ _ F). }
      exists s'. split; [exact (table_in _ _ _ _ _ F) |]. split; [rewrite G1, Q, state_snoc; reflexivity |].
      split; [exact G2 |]. split; [rewrite G3, N, size_snoc; lia |]. rewrite hidden_snoc, size_snoc.
      replace (Z.of_N (N.succ (size w))) with (Z.of_N (size w) + 1) by lia. apply G4; [lia | nia | exact D]. }
  intros w W F U. destruct (after l w) as [r |] eqn:R; [| unfold legal in W; congruence].
  destruct (Inv w r R U) as (s & I & Q & _ & N & D).
  assert (WR : well_read net (spot_hall s)).
  { destruct (Hall s I) as [J | J].
    - unfold halls in J. apply in_map_iff in J. destruct J as (q & J & _). rewrite <- J. apply hall_well_read.
    - rewrite J. intro k. right. right. split; reflexivity. }
  pose proof (near_right net m l from upto c T s (Z.of_N (size w)) (hidden net w) (HE s I)
    ltac:(lia) WR ltac:(lia) HF HA HG HW D) as Y.
  simpl in Y. rewrite Q in Y. exact Y.
Qed.

(* The same for all words over the network's symbols. *)
Corollary checked_horizon_on_all : forall net m K from upto c rooms places,
  check_horizon net m (every K) from upto c rooms places = true ->
  forall w, over K w -> (from <= size w)%N -> (size w <= upto)%N -> right net m w.
Proof.
  intros net m K from upto c rooms places E w O. apply (checked_horizon net m (every K) from upto c rooms places E).
  unfold legal. rewrite over_is_legal by exact O. discriminate.
Qed.
