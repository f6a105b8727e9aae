(* Networks, machines, languages, and what it means that a network is right on a word.

   Everything that a verdict says is defined in this part, and nothing that it does not say. Numbers are whole
   numbers of any size (Z), symbols, states, classes and columns are numbered from 0 (N). *)
Require Export ZArith NArith List Bool Lia FMapPositive.
Export ListNotations.
Open Scope Z_scope.

(* The item of a list at a place; a default beyond its end. *)
Definition item {T : Type} (i : N) (l : list T) (default : T) : T := nth (N.to_nat i) l default.

(* A hidden state lists its entries; a row of a matrix lists its weights that are not 0, each with its column. *)
Definition vector := list Z.
Definition row := list (N * Z).
Definition matrix := list row.
Definition weight (column : N) (value : Z) : N * Z := (column, value).

(* A row that is written out in full: one weight for each column, from column 0 on. *)
Fixpoint from_column (j : N) (values : list Z) : row :=
  match values with
  | [] => []
  | v :: values' => (j, v) :: from_column (N.succ j) values'
  end.
Definition dense (values : list Z) : row := from_column 0 values.

(* A row times a hidden state, and a matrix times a hidden state. *)
Fixpoint dot (r : row) (h : vector) : Z :=
  match r with
  | [] => 0
  | (j, w) :: r' => w * item j h 0 + dot r' h
  end.
Definition act (A : matrix) (h : vector) : vector := map (fun r => dot r h) A.

(* The network h_t = A[a_t] h_(t-1) with logits U h_t: a matrix for each symbol, h_0, and U, a row for each class. *)
Record network := { matrices : list matrix; initial : vector; readout : matrix }.
Definition move (net : network) (h : vector) (a : N) : vector := act (item a (matrices net) []) h.
Definition hidden (net : network) (w : list N) : vector := fold_left (move net) w (initial net).
Definition classes (net : network) : N := N.of_nat (length (readout net)).
Definition logit (net : network) (k : N) (w : list N) : Z := dot (item k (readout net) []) (hidden net w).

(* The machine: for each state the next state on each symbol; the first state; the output of each state. *)
Record machine := { moves : list (list N); start : N; outputs : list N }.
Definition next (m : machine) (q : N) (a : N) : N := item a (item q (moves m) []) 0%N.
Definition state (m : machine) (w : list N) : N := fold_left (next m) w (start m).
Definition answer (m : machine) (w : list N) : N := item (state m w) (outputs m) 0%N.

(* The legal words: an automaton that is stuck, None, at a symbol that may not follow. *)
Record language := { follows : list (list (option N)); begins : N }.
Definition follow (l : language) (r : option N) (a : N) : option N :=
  match r with
  | Some r => item a (item r (follows l) []) None
  | None => None
  end.
Definition after (l : language) (w : list N) : option N := fold_left (follow l) w (Some (begins l)).
Definition legal (l : language) (w : list N) : Prop := after l w <> None.

(* Words of the symbols 0 to K - 1, whatever their order. *)
Definition over (K : N) (w : list N) : Prop := Forall (fun a => (a < K)%N) w.
Definition every (K : N) : language := {| follows := [repeat (Some 0%N) (N.to_nat K)]; begins := 0%N |}.

(* How many symbols a word has. *)
Definition size (w : list N) : N := N.of_nat (length w).

(* Right on a word: the logit of the machine's answer is strictly larger than that of each other class. *)
Definition right (net : network) (m : machine) (w : list N) : Prop :=
  (answer m w < classes net)%N /\
  forall k, (k < classes net)%N -> k <> answer m w -> logit net k w < logit net (answer m w) w.
