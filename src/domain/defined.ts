/** Leaves out of an object what is undefined: for options that are absent where nobody gave them. Pure. */
export const toDefined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Field in keyof T]?: Exclude<T[Field], undefined>
  }
