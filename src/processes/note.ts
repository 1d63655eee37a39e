/** Where a request stands that waits for a model server, in words that its client reads beside keep-alives. Pure. */

/** @param what it waits for, such as `loading`; '' = its turn alone. */
export const toNote = (position: number, length: number, what: '' | 'loading' | 'for memory'): string =>
  `waiting, ${toOrdinal(position)} of ${length}${what === '' ? '' : `, ${what}`}`

function toOrdinal(n: number): string {
  const isTeen = Math.floor(n / 10) % 10 === 1
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][n % 10] ?? 'th')
  return `${n}${ending}`
}
