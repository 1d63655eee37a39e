/** A field that changed, in words. Types only. */

export interface FieldChange {
  field: string
  /** Null where it was not there. */
  before: string | null
  /** Null where it is gone. */
  after: string | null
}
