/** What is left out stays as it is; null takes it away. */
export type FieldChanges<T> = { [Field in keyof T]?: T[Field] | null }

/** Makes changes of fields that need not be there. Pure. */
export const toChanged = <T extends object>(before: T, changes: FieldChanges<T>): T =>
  Object.fromEntries(Object.entries({ ...before, ...toDefined(changes) }).filter(([, value]) => value !== null)) as T

/** Leaves out of an object what is undefined: for options that are absent where nobody gave them. Pure. */
export const toDefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>
  }
