/** The thread: what was asked, and below each the answers of one model or of two side by side. Follows what is written, for who is at its end. */
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from '../ui/button.tsx'
import { AnswerView } from './answer-view.tsx'
import { findModel, type OfferedModel } from './data.ts'
import { toComposer } from './focus.ts'
import { QuestionView } from './question-view.tsx'
import { ask, isAnswering, thread, write } from './state.ts'
import { isDue, isRunning, type Round, type Side } from './thread.ts'

interface ThreadProps {
  models: readonly OfferedModel[]
  chosen: readonly string[]
}

const NEAR_PX = 120
const isNearEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PX

export function ThreadView({ models, chosen }: ThreadProps) {
  const follows = useRef(true)
  const wasAnswering = useRef(false)
  useEffect(() => {
    const look = () => {
      follows.current = isNearEnd()
    }
    addEventListener('scroll', look, { passive: true })
    return () => removeEventListener('scroll', look)
  }, [])
  const rounds = thread.value.length
  // Who asks wants to see what comes.
  useLayoutEffect(() => {
    follows.current = true
  }, [rounds])
  useLayoutEffect(() => {
    // Also what an answer has below it at its end.
    if (follows.current && (isAnswering.value || wasAnswering.current))
      scrollTo(0, document.documentElement.scrollHeight)
    wasAnswering.current = isAnswering.value
  }, [thread.value])
  return (
    <ol class="play-thread" aria-label="Thread">
      {thread.value.map((round, at) => (
        <li key={round.id} class="play-round">
          <QuestionView round={round} chosen={chosen} number={at + 1} />
          <div class="play-sides" data-two={chosen.length > 1}>
            {chosen.map((model, side) => (
              <SideView key={side} {...{ round, model, models }} side={side === 0 ? 0 : 1} isLast={at === rounds - 1} />
            ))}
          </div>
        </li>
      ))}
    </ol>
  )
}

interface SideProps {
  round: Round
  side: Side
  model: string
  models: readonly OfferedModel[]
  isLast: boolean
}

function SideView({ round, side, model, models, isLast }: SideProps) {
  const answers = round.answers[side]
  const isItsTurn = isLast && !answers.some(isRunning) && isDue(thread.value, side)
  return (
    <div class="play-side">
      {answers.map((answer, at) => (
        <AnswerView
          key={answer.id}
          {...{ round, side, answer, model }}
          pricing={findModel(models, answer.model)?.pricing ?? null}
          isLast={isLast && at === answers.length - 1}
        />
      ))}
      {isItsTurn && (
        <p class="play-turn">
          <Button
            icon="right"
            onClick={() => {
              ask(round.id, side, model)
              toComposer()
            }}
          >
            Ask {model}
          </Button>
          {answers.length === 0 && (
            <Button kind="quiet" icon="edit" disabled={isAnswering.value} onClick={() => write(round.id, side)}>
              Write it yourself
            </Button>
          )}
        </p>
      )}
    </div>
  )
}
