/** Short-lived data between the steps of a sign-in, such as a challenge. Shared by all nodes of a cluster. */
export interface SignInNote {
  name: string
  /** The client's network: each has a maximum, above which its oldest note is dropped. */
  network: string
  text: string
  endsMs: number
}

/** In a cluster, all methods throw `cluster_unreachable`. */
export interface SignInNotes {
  /** Replaces a note of the same name. */
  put(note: SignInNote, nowMs: number): Promise<void>
  /** Null if there is none or it has expired. */
  find(name: string, nowMs: number): Promise<string | null>
  /** True only for the caller that removes it. */
  remove(name: string): Promise<boolean>
}

export type SignInNoteKind = 'setup' | 'provider' | 'passkey'

/** Maximum per kind. */
export const MAX_NOTES = { network: 100, all: 10_000 }
