/** What was asked: a message of the person, with its pictures. */
import { IconButton } from '../ui/button.tsx'
import { announce } from '../ui/notice.tsx'
import { EditText } from './edit-text.tsx'
import { backToEdit, toComposer } from './focus.ts'
import { LongText } from './long-text.tsx'
import { PictureList } from './picture-list.tsx'
import { askAgain, change, editing, isAnswering, removeRound } from './state.ts'
import { changeRound, type Round } from './thread.ts'

interface QuestionProps {
  round: Round
  chosen: readonly string[]
  /** Counted from 1. */
  number: number
}

export function QuestionView({ round, chosen, number }: QuestionProps) {
  const { id, text, pictures } = round
  const isBusy = isAnswering.value
  const save = (next: string) => {
    change((thread) => changeRound(thread, id, (one) => ({ ...one, text: next })))
    editing.value = null
    backToEdit(id)
  }
  const removePicture = (at: number) =>
    change((thread) =>
      changeRound(thread, id, (one) => ({ ...one, pictures: one.pictures.filter((_, index) => index !== at) })),
    )
  const again = () => {
    askAgain(id, chosen)
    toComposer()
  }
  const remove = () => {
    removeRound(id)
    announce('Removed, with its answers.')
    toComposer()
  }
  const isEdited = editing.value === id
  return (
    <article class="turn asked" aria-label={`Message ${number}`}>
      <header class="turn-head">
        <h2>You</h2>
        <div class="turn-tools">
          <IconButton
            icon="edit"
            label={`Edit message ${number}`}
            data-edit={id}
            disabled={isBusy}
            onClick={() => {
              editing.value = id
            }}
          />
          <IconButton icon="again" label={`Ask message ${number} again`} disabled={isBusy} onClick={again} />
          <IconButton
            icon="remove"
            label={`Remove message ${number} and its answers`}
            disabled={isBusy}
            onClick={remove}
          />
        </div>
      </header>
      <PictureList pictures={pictures} remove={isEdited ? removePicture : null} />
      {isEdited ? (
        <EditText
          text={text}
          label={`Message ${number}`}
          save={save}
          cancel={() => {
            editing.value = null
            backToEdit(id)
          }}
          also={{
            label: 'Save and ask again',
            run: (next) => {
              save(next)
              again()
            },
          }}
        />
      ) : (
        text !== '' && <LongText text={text} />
      )}
    </article>
  )
}
