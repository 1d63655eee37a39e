/** What the steps of a sign-in leave for the next one, such as a challenge: of one kind, short-lived, the same on all nodes of a cluster. */
export interface SignInNote {
  name: string
  /** Of the client: too many of one displace its own first. */
  network: string
  text: string
  endsMs: number
}

/** Those of a cluster throw `cluster_unreachable`. */
export interface SignInNotes {
  /** Replaces one of this name. */
  put(note: SignInNote, nowMs: number): Promise<void>
  /** Null: there is none, or it has ended. */
  find(name: string, nowMs: number): Promise<string | null>
  /** True for the caller that removes it. */
  remove(name: string): Promise<boolean>
}

export type SignInNoteKind = 'setup' | 'provider' | 'passkey'

/** Of one kind. */
export const MAX_NOTES = { network: 100, all: 10_000 }
