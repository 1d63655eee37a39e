/** Why something was not done: for people, and for a form that can point to the field. */
export class Refusal extends Error {
  constructor(
    message: string,
    /** As the API and the command line name it; `unreachable` where nobody answered. */
    readonly kind: string,
    /** By its column's name. */
    readonly field: string | null = null,
  ) {
    super(message)
  }
}
