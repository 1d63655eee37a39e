/** A stream of server-sent events, read from pieces of its text as they come. Pure but for what it still waits for. */

/** Takes a piece and returns the data of each event that is whole with it. */
export function createEventReader(): (piece: string) => string[] {
  /** Of the line that has not ended, piece by piece. */
  let line: string[] = []
  let data: string[] = []
  let isAfterReturn = false

  return (piece) => {
    const events: string[] = []
    const end = () => {
      const text = line.join('')
      line = []
      if (text === '') {
        if (data.length > 0) events.push(data.join('\n'))
        data = []
      } else if (text.startsWith('data:')) data.push(text.slice(text[5] === ' ' ? 6 : 5))
    }
    let from = 0
    for (let at = 0; at < piece.length; at++) {
      const char = piece[at]
      if (char !== '\n' && char !== '\r') {
        isAfterReturn = false
        continue
      }
      // Of both, the second ends no line of its own.
      if (char === '\n' && isAfterReturn) from++
      else {
        line.push(piece.slice(from, at))
        from = at + 1
        end()
      }
      isAfterReturn = char === '\r'
    }
    if (from < piece.length) line.push(piece.slice(from))
    return events
  }
}
