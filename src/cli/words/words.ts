/** What options of several commands have in common. */

/** Of an option that may be repeated. */
export const collect = (text: string, before: string[] = []) => [...before, text]
