/** What somebody wrote or pasted: of what a browser would take seconds to lay out, the beginning. */
import { useState } from 'preact/hooks'
import { toCount } from '../figures/counts.ts'
import { Button } from '../ui/button.tsx'

const MOST_SHOWN = 50_000

export const isLong = (text: string): boolean => text.length > MOST_SHOWN

export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false)
  if (!isLong(text) || isWhole) return <p class="turn-text">{text}</p>
  return (
    <>
      <p class="turn-text">{text.slice(0, MOST_SHOWN).toWellFormed()} …</p>
      <div>
        <Button onClick={() => setWhole(true)}>Show the other {toCount(text.length - MOST_SHOWN)} characters</Button>
      </div>
    </>
  )
}
